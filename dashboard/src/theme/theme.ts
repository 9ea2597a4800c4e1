import { createTheme, type MantineColorsTuple } from "@mantine/core";

const brand: MantineColorsTuple = [
  "#edf2ff", "#dbe4fb", "#b5c7f5", "#8ba8ef", "#678cea", "#4c78e6", "#2f63e0", "#2456d6", "#1b4bbd", "#103f9f",
];

/** Neutral greys with a little blue, darker than Mantine's: dark mode is a design of its own. */
const dark: MantineColorsTuple = [
  "#dfe3ea", "#c3c9d4", "#a3acba", "#7d8797", "#4a5364", "#323a49", "#252c39", "#1b212c", "#151a23", "#0f131a",
];

const FAMILY = '"Inter Variable", "Inter", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif';

export const theme = createTheme({
  primaryColor: "brand",
  primaryShade: { light: 7, dark: 6 },
  autoContrast: true,
  luminanceThreshold: 0.35,
  colors: { brand, dark },
  fontFamily: FAMILY,
  fontFamilyMonospace: 'ui-monospace, "SFMono-Regular", Menlo, Consolas, "Liberation Mono", "Noto Sans Mono CJK SC", monospace',
  fontSizes: { xs: "0.75rem", sm: "0.8125rem", md: "0.875rem", lg: "1rem", xl: "1.125rem" },
  headings: {
    fontFamily: FAMILY,
    fontWeight: "600",
    sizes: { h1: { fontSize: "1.375rem" }, h2: { fontSize: "1.0625rem" }, h3: { fontSize: "0.9375rem" } },
  },
  defaultRadius: "md",
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    Card: { defaultProps: { withBorder: true, padding: "md", radius: "md" } },
    Tooltip: { defaultProps: { withArrow: true, openDelay: 250, multiline: true, maw: 360, events: { hover: true, focus: true, touch: true } } },
    InputWrapper: { defaultProps: { inputWrapperOrder: ["label", "input", "description", "error"] } },
    // The page has one banner; a dialog's header is none.
    Modal: { defaultProps: { attributes: { header: { role: "presentation" } } } },
    TextInput: { defaultProps: { size: "sm" } },
    Select: { defaultProps: { size: "sm" } },
    Button: { defaultProps: { size: "sm" } },
  },
});
