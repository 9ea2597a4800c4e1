import type { Cell } from "../csv";

type Part = Readonly<Record<string, unknown>>;

const listed = (part: unknown): Part[] => (Array.isArray(part) ? (part as Part[]) : part ? [part as Part] : []);

/** The axis's own words, in place of positions on it. */
function wordsOf(axis: Part | undefined): readonly unknown[] | null {
  return axis?.type === "category" && Array.isArray(axis.data) ? axis.data : null;
}

function plain(value: unknown): Cell {
  if (value === null || value === undefined) return null;
  if (typeof value === "object") return "value" in value ? plain(value.value) : JSON.stringify(value);
  return value as Cell;
}

function cells(item: unknown): Cell[] {
  const value = typeof item === "object" && item !== null && !Array.isArray(item) && "value" in item ? item.value : item;
  return Array.isArray(value) ? value.map(plain) : [plain(value)];
}

/** A line for each datum of an ECharts option: its series, its place on an axis of words, its numbers. */
export function numbersOf(option: Part): Cell[][] {
  const [x] = listed(option.xAxis);
  const [y] = listed(option.yAxis);
  const words = wordsOf(x) ?? wordsOf(y);
  const names = [x, y].map((axis, place) => String(axis?.name || (place ? "y" : "x")));
  const rows = listed(option.series).flatMap((series) =>
    listed(series.data).map((item, place): Cell[] => {
      const values = cells(item);
      const isBare = values.length === 1 && words !== null;
      return [String(series.name ?? ""), ...(isBare ? [plain(words[place])] : []), ...values];
    }),
  );
  const widest = Math.max(3, ...rows.map((row) => row.length));
  const beyond = Array.from({ length: widest - 3 }, (_, place) => `value ${place + 3}`);
  return [["series", ...(wordsOf(y) && !wordsOf(x) ? names.reverse() : names), ...beyond], ...rows];
}
