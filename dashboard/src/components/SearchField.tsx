import { TextInput } from "@mantine/core";
import { IconSearch } from "@tabler/icons-react";

import { useUrlDraft } from "../state/url";

interface Props {
  label: string;
  /** Of the parameter in the address. */
  name?: string;
}

/** The page's search field: `/` jumps to it, its text is in the address. */
export function SearchField({ label, name = "q" }: Props) {
  const [text, setText] = useUrlDraft(name);
  return (
    <TextInput
      data-search
      type="search"
      value={text}
      onChange={(event) => setText(event.currentTarget.value)}
      placeholder={label}
      aria-label={label}
      leftSection={<IconSearch size={15} />}
      style={{ flex: "1 1 200px", maxWidth: 320 }}
    />
  );
}

/** Whether the text has every word of the search, whatever their case. */
export function hasWords(text: string, search: string): boolean {
  const found = text.toLowerCase();
  return search.toLowerCase().split(/\s+/).every((word) => found.includes(word));
}
