export type Cell = string | number | boolean | null | undefined;

const quoted = (value: Cell): string => {
  const text = String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** Lines of cells as a CSV file; nothing stands for what is missing. */
export function csvText(lines: readonly (readonly Cell[])[]): string {
  return lines.map((line) => `${line.map(quoted).join(",")}\n`).join("");
}
