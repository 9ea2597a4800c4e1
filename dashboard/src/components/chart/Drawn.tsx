import { useContext, useEffect, useRef, type ReactNode } from "react";

import { usePalette } from "../../theme/usePalette";
import type { Cell } from "../csv";
import { PictureOf } from "./picture";

interface Props {
  /** What its data file holds, a line of names first. */
  numbers: () => readonly (readonly Cell[])[];
  children: ReactNode;
}

/** A picture of boxes and text inside a `ChartCard`, which saves it as the page shows it. */
export function Drawn({ numbers, children }: Props) {
  const palette = usePalette();
  const setPicture = useContext(PictureOf);
  const place = useRef<HTMLDivElement>(null);
  const latest = useRef(numbers);
  useEffect(() => {
    latest.current = numbers;
  });
  useEffect(() => {
    const files = async () => {
      const { elementFiles } = await import("./domPicture");
      if (!place.current) throw new Error("the picture has gone");
      return elementFiles(place.current, palette.surface);
    };
    setPicture?.({ png: async () => (await files()).png(), svg: async () => (await files()).svg(), numbers: () => latest.current() });
    return () => setPicture?.(null);
  }, [setPicture, palette]);
  return <div ref={place}>{children}</div>;
}
