const ESCAPES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (letter) => ESCAPES[letter] ?? letter);
}

interface Line {
  name: string;
  value: string;
  color?: string | undefined;
}

/** What a chart's tooltip shows: a title and lines of a name and a value. */
export function tooltipHtml(title: string, lines: readonly Line[]): string {
  const rows = lines.map(
    ({ name, value, color }) =>
      `<div style="display:flex;gap:16px;justify-content:space-between"><span>${
        color ? `<span style="display:inline-block;width:9px;height:9px;border-radius:2px;margin-right:6px;background:${color}"></span>` : ""
      }${escaped(name)}</span><b style="font-weight:600;font-variant-numeric:tabular-nums">${escaped(value)}</b></div>`,
  );
  return `<div style="max-width:340px;white-space:normal"><div style="font-weight:600;margin-bottom:4px">${escaped(title)}</div>${rows.join("")}</div>`;
}
