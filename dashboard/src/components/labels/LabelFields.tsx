import { Group, Textarea, TextInput } from "@mantine/core";
import type { Ref } from "react";

import { useTranslation } from "../../i18n";
import { MAX_NAME, MAX_NOTE, type Label } from "./labels";

interface Props {
  given: Readonly<Record<Label, string>>;
  set: (label: Label, value: string) => void;
  errorOf: (label: Label) => string | false | undefined;
  first?: Ref<HTMLInputElement>;
}

/** What people call a study: name, tags between commas, note. */
export function LabelFields({ given, set, errorOf, first }: Props) {
  const { t } = useTranslation("labels");
  const usual = (label: Label) => ({
    name: label,
    label: t(`form.${label}`),
    value: given[label],
    onChange: (event: { currentTarget: { value: string } }) => set(label, event.currentTarget.value),
    error: errorOf(label),
    autoComplete: "off",
  });
  return (
    <>
      <Group align="flex-start" gap="sm">
        <TextInput {...usual("name")} placeholder={t("form.namePlaceholder")} maxLength={MAX_NAME} style={{ flex: "1 1 260px" }} {...(first && { ref: first, "data-autofocus": true })} />
        <TextInput {...usual("tags")} description={t("form.tagsHelp")} inputWrapperOrder={["label", "input", "description", "error"]} style={{ flex: "1 1 260px" }} />
      </Group>
      <Textarea {...usual("note")} maxLength={MAX_NOTE} autosize minRows={2} maxRows={12} />
    </>
  );
}
