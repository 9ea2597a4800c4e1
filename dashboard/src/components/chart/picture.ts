import { createContext } from "react";

import type { Cell } from "../csv";

/** A drawn chart as files. */
export interface Picture {
  png: () => Promise<Blob>;
  svg: () => Promise<string>;
  /** What the series hold, under their names. */
  numbers: () => Cell[][];
}

/** What frames a chart is told of its picture: null when it has gone. */
export const PictureOf = createContext<((picture: Picture | null) => void) | null>(null);
