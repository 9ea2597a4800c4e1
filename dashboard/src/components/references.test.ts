import { expect, it } from "vitest";

import { citedBy, parsed } from "./references";

const profiles = import.meta.glob<string>("../../../hardware_profiles/*/*.yaml", { eager: true, query: "?raw", import: "default" });

it("reads a table row", () => {
  const found = parsed("| key | source | read |\n|---|---|---|\n| `hccl-doc` | Ascend, *HCCL* `guide`. <https://a.example/b> | part |\n");
  expect([...found.values()]).toEqual([{ key: "hccl-doc", title: "Ascend, *HCCL* guide.", url: "https://a.example/b" }]);
});

it("tells places apart from keys", () => {
  expect(citedBy("cloudmatrix384, table 2, p. 4; msmodeling").map(({ key, place }) => [key, place])).toEqual([
    ["cloudmatrix384", "table 2, p. 4"],
    ["msmodeling", ""],
  ]);
});

it("finds every source that a shipped profile cites", () => {
  const sources = Object.values(profiles).flatMap((text) => [...text.matchAll(/\bsource: ("[^"]*"|'[^']*'|[^,}\n]*)/g)].map(([, source = ""]) => source.replace(/["']/g, "")));
  expect(sources.length).toBeGreaterThan(300);
  expect([...new Set(sources.flatMap(citedBy).filter(({ reference }) => !reference).map(({ key }) => key))]).toEqual([]);
});
