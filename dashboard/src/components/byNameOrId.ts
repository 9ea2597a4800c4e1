import { isOptionsGroup, type ComboboxItem, type OptionsFilter } from "@mantine/core";

import { hasWords } from "./SearchField";

/** A choice is found by what it is called here and by its id, which files and commands use. */
export const byNameOrId: OptionsFilter = ({ options, search, limit }) => {
  const fits = ({ value, label }: ComboboxItem) => hasWords(`${label} ${value}`, search);
  return options
    .map((option) => (isOptionsGroup(option) ? { ...option, items: option.items.filter((item) => typeof item === "object" && fits(item)) } : option))
    .filter((option) => (isOptionsGroup(option) ? option.items.length > 0 : fits(option)))
    .slice(0, limit);
};
