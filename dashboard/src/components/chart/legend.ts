/** A legend with all its names in sight: ECharts wraps it, and the chart grows by the lines that it takes. */
type Part = Readonly<Record<string, unknown>>;

const LINE_PX = 20;
const PADDING_PX = 5;
const BEFORE_NAME_PX = 15; // the mark and its gap
const BETWEEN_PX = 8;

const listed = (part: unknown): Part[] => (Array.isArray(part) ? (part as Part[]) : part ? [part as Part] : []);

/** Lines that names of these widths take. */
export function linesOf(widths: readonly number[], room: number): number {
  let [lines, used] = [1, 0];
  for (const width of widths) {
    const wide = BEFORE_NAME_PX + width;
    if (used > 0 && used + wide > room - 2 * PADDING_PX) [lines, used] = [lines + 1, 0];
    used += wide + BETWEEN_PX;
  }
  return lines;
}

function namesOf(option: Part, legend: Part): string[] {
  const named = Array.isArray(legend.data) ? (legend.data as unknown[]) : listed(option.series).map(({ name }) => name);
  return [...new Set(named.map((each) => (typeof each === "object" && each !== null ? String((each as Part).name) : String(each ?? ""))).filter(Boolean))];
}

/** The option with room for its legend, and the pixels by which the chart is to grow; `measure` gives the width of a name. */
export function withWholeLegend<Option extends object>(option: Option, width: number, measure: (name: string) => number): { option: Option; more: number } {
  const whole = option as Part;
  const legend = whole.legend as Part | undefined;
  const grid = whole.grid as Part | undefined;
  if (!legend || !grid || width <= 0) return { option, more: 0 };
  const more = (linesOf(namesOf(whole, legend).map(measure), width) - 1) * LINE_PX;
  const side = legend.bottom === undefined ? "top" : "bottom";
  return { option: { ...option, legend: { ...legend, type: "plain" }, grid: { ...grid, [side]: Number(grid[side] ?? 0) + more } }, more };
}
