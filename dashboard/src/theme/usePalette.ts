import { useComputedColorScheme } from "@mantine/core";

import { palettes, type Palette } from "./palette";

export function usePalette(): Palette {
  return palettes[useComputedColorScheme("light")];
}
