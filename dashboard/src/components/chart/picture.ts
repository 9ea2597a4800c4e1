import { createContext } from "react";

import type { Cell } from "../csv";

/** A drawn chart as files. */
export interface Picture {
  png: () => Promise<Blob>;
  svg: () => Promise<string>;
  /** What the chart shows, a line of names first. */
  numbers: () => readonly (readonly Cell[])[];
}

/** What frames a chart is told of its picture: null when it has gone. */
export const PictureOf = createContext<((picture: Picture | null) => void) | null>(null);

export const pngOf = (canvas: HTMLCanvasElement): Promise<Blob> =>
  new Promise((done, failed) => canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("no picture")))));

/** A canvas, which is clear where nothing is drawn, on the page's colour. */
export function onSurface(drawn: HTMLCanvasElement | null, color: string): HTMLCanvasElement {
  const whole = Object.assign(document.createElement("canvas"), { width: drawn?.width ?? 1, height: drawn?.height ?? 1 });
  const context = whole.getContext("2d");
  if (!drawn || !context) throw new Error("the picture has gone");
  context.fillStyle = color;
  context.fillRect(0, 0, whole.width, whole.height);
  context.drawImage(drawn, 0, 0);
  return whole;
}
