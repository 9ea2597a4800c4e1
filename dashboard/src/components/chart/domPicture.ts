/** What a page shows with boxes and text, drawn once more as SVG: for the pictures that no chart library draws. */
import type { Picture } from "./picture";
import { pngOf } from "./picture";

const SHARP = 2;

const escaped = (text: string): string => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/"/g, "&quot;");

/** Colours as any program reads them: browsers write mixed ones as `color(srgb r g b / a)`. */
export function plainColor(color: string): string | null {
  const mixed = /^color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)(?: \/ ([\d.e-]+))?\)$/.exec(color);
  const parts = mixed ? [...mixed.slice(1, 4).map((part) => Math.round(Number(part) * 255)), Number(mixed[4] ?? 1)] : (color.match(/[\d.]+/g) ?? []).map(Number);
  const [red, green, blue, alpha = 1] = parts;
  return alpha === 0 || red === undefined ? null : `rgba(${red}, ${green}, ${blue}, ${alpha})`;
}

interface Origin {
  left: number;
  top: number;
}

/** The words of a text node, a piece for each line. */
function lines(node: Text): { text: string; box: DOMRect }[] {
  const range = document.createRange();
  const found: { text: string; box: DOMRect }[] = [];
  for (const match of node.data.matchAll(/[⺀-鿿＀-￯]|[^\s⺀-鿿＀-￯]+\s*/g)) {
    range.setStart(node, match.index);
    range.setEnd(node, match.index + match[0].length);
    const box = range.getBoundingClientRect();
    const last = found.at(-1);
    if (last && Math.abs(last.box.top - box.top) < 2) last.text += match[0];
    else if (box.width > 0) found.push({ text: match[0], box });
  }
  return found;
}

function textOf(node: Text, style: CSSStyleDeclaration, { left, top }: Origin): string {
  const fill = plainColor(style.color) ?? "#000";
  return lines(node)
    .map(({ text, box }) => {
      const place = `x="${(box.left - left).toFixed(1)}" y="${(box.top + box.height / 2 - top).toFixed(1)}"`;
      return `<text ${place} dominant-baseline="central" font-size="${style.fontSize}" font-weight="${style.fontWeight}" fill="${fill}">${escaped(text.trimEnd())}</text>`;
    })
    .join("");
}

function boxOf(style: CSSStyleDeclaration, box: DOMRect, { left, top }: Origin): string {
  const ground = plainColor(style.backgroundColor);
  const wide = parseFloat(style.borderTopWidth) || 0;
  const isFramed = wide > 0 && style.borderTopStyle !== "none" && style.borderLeftWidth === style.borderTopWidth;
  const line = isFramed ? plainColor(style.borderTopColor) : null;
  if ((!ground && !line) || box.width === 0) return "";
  const inset = line ? wide / 2 : 0;
  const stroke = line ? ` stroke="${line}" stroke-width="${wide}"${style.borderTopStyle === "dashed" ? ' stroke-dasharray="4 3"' : ""}` : "";
  const size = `width="${Math.max(box.width - 2 * inset, 0).toFixed(1)}" height="${Math.max(box.height - 2 * inset, 0).toFixed(1)}"`;
  return `<rect x="${(box.left - left + inset).toFixed(1)}" y="${(box.top - top + inset).toFixed(1)}" ${size} rx="${parseFloat(style.borderTopLeftRadius) || 0}" fill="${ground ?? "none"}"${stroke}/>`;
}

function drawn(node: Node, origin: Origin): string {
  if (node instanceof Text) return node.parentElement ? textOf(node, getComputedStyle(node.parentElement), origin) : "";
  if (!(node instanceof Element)) return "";
  const style = getComputedStyle(node);
  if (style.display === "none" || style.visibility === "hidden" || node.classList.contains("visually-hidden")) return "";
  const box = node.getBoundingClientRect();
  if (node instanceof SVGSVGElement) {
    const copy = node.cloneNode(true) as SVGSVGElement;
    for (const name of ["class", "style", "role", "aria-label"]) copy.removeAttribute(name);
    const place = { x: box.left - origin.left, y: box.top - origin.top, width: box.width, height: box.height, color: plainColor(style.color) ?? "#000" };
    for (const [name, value] of Object.entries(place)) copy.setAttribute(name, String(value));
    return new XMLSerializer().serializeToString(copy);
  }
  const inside = boxOf(style, box, origin) + [...node.childNodes].map((child) => drawn(child, origin)).join("");
  return style.opacity === "1" || !inside ? inside : `<g opacity="${style.opacity}">${inside}</g>`;
}

/** An element as it stands on the page, all of it where it scrolls. */
export function elementSvg(element: HTMLElement, ground: string): string {
  const box = element.getBoundingClientRect();
  const origin = { left: box.left - element.scrollLeft, top: box.top - element.scrollTop };
  // What scrolls inside is as wide as its widest line.
  const rights = [...element.querySelectorAll("*")].map((inner) => inner.getBoundingClientRect().right - origin.left);
  const [width, height] = [Math.ceil(Math.max(element.scrollWidth, ...rights)), element.scrollHeight];
  const family = escaped(getComputedStyle(element).fontFamily.replaceAll('"', "'"));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${family}">`,
    `<rect width="100%" height="100%" fill="${ground}"/>`,
    ...[...element.childNodes].map((child) => drawn(child, origin)),
    "</svg>",
  ].join("\n");
}

async function svgPng(text: string): Promise<Blob> {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width * SHARP, height: image.height * SHARP });
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return pngOf(canvas);
}

export const elementFiles = (element: HTMLElement, ground: string): Pick<Picture, "png" | "svg"> => ({
  svg: () => Promise.resolve(elementSvg(element, ground)),
  png: () => svgPng(elementSvg(element, ground)),
});
