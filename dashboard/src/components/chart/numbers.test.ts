import { expect, it } from "vitest";

import { csvText } from "../csv";
import { numbersOf } from "./numbers";

it("names the words of an axis beside bare numbers", () => {
  const option = {
    xAxis: { type: "category", name: "rank", data: ["0", "1"] },
    yAxis: { type: "value", name: "GiB" },
    series: [{ name: "weights", data: [1.5, { value: 2 }] }],
  };
  expect(numbersOf(option)).toEqual([["series", "rank", "GiB"], ["weights", "0", 1.5], ["weights", "1", 2]]);
});

it("turns with the axes of a bar chart that lies on its side", () => {
  const option = { xAxis: { type: "value", name: "s" }, yAxis: { type: "category", data: ["a"] }, series: { data: [3] } };
  expect(numbersOf(option)).toEqual([["series", "y", "s"], ["", "a", 3]]);
});

it("keeps every dimension of a point, and what a mark around it hides", () => {
  const option = { xAxis: { type: "log" }, yAxis: {}, series: [{ name: "p", data: [[1, 2, 3], { value: [4, null], symbolSize: 9 }] }] };
  expect(numbersOf(option)).toEqual([["series", "x", "y", "value 3"], ["p", 1, 2, 3], ["p", 4, null]]);
});

it("quotes what a spreadsheet would take apart", () => {
  expect(csvText([["a,b", 'say "x"', null], [1, true, "c\nd"]])).toBe('"a,b","say ""x""",\n1,true,"c\nd"\n');
});
