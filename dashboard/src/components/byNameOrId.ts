import { isOptionsGroup, type ComboboxItem, type OptionsFilter } from "@mantine/core";

/** A choice is found by what it is called here and by its id, which files and commands use. */
export const byNameOrId: OptionsFilter = ({ options, search, limit }) => {
  const words = search.toLowerCase().split(/[\s-]+/).filter(Boolean);
  const fits = ({ value, label }: ComboboxItem) => words.every((word) => `${label} ${value}`.toLowerCase().includes(word));
  return options
    .map((option) => (isOptionsGroup(option) ? { ...option, items: option.items.filter((item) => typeof item === "object" && fits(item)) } : option))
    .filter((option) => (isOptionsGroup(option) ? option.items.length > 0 : fits(option)))
    .slice(0, limit);
};
