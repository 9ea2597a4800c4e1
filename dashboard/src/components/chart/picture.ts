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
