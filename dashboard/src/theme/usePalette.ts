import { useComputedColorScheme } from "@mantine/core";

import { palettes, type Palette } from "./palette";
import { usePrinting } from "./printing";

export function usePalette(): Palette {
  const scheme = useComputedColorScheme("light");
  return palettes[usePrinting() ? "light" : scheme];
}
