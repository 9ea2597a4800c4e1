import { Button, Group, Stack, Textarea, TextInput } from "@mantine/core";
import { useEffect, useRef, useState, type SyntheticEvent } from "react";

import { toApiError } from "../../api/problem";
import type { Study } from "../../api/queries";
import { useTranslation } from "../../i18n";
import { ErrorState } from "../ErrorState";
import { useChange } from "./change";
import { changesOf, tagsText } from "./labels";

const [MAX_NAME, MAX_NOTE] = [120, 2000]; // app/studies/labels.py

/** Name, tags and note of a study to change. Escape gives up. */
export function LabelsForm({ study, onDone }: { study: Study; onDone: () => void }) {
  const { t } = useTranslation("labels");
  const { mutate, isPending, error } = useChange(study.id);
  const [given, setGiven] = useState({ name: study.name, tags: tagsText(study.tags), note: study.note });
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => first.current?.focus({ preventScroll: true }), []);
  const set = (name: keyof typeof given) => (event: { currentTarget: { value: string } }) => {
    const { value } = event.currentTarget;
    setGiven((before) => ({ ...before, [name]: value }));
  };
  const refused = error && toApiError(error);
  const wrong = refused?.problem.pointer?.split("/")[1];
  const errorOf = (name: string) => wrong === name && refused?.problem.detail;

  function save(event: SyntheticEvent) {
    event.preventDefault();
    const changes = changesOf(study, given);
    if (Object.keys(changes).length) mutate(changes, { onSuccess: onDone });
    else onDone();
  }
  return (
    <form onSubmit={save} onKeyDown={({ key }) => key === "Escape" && onDone()}>
      <Stack gap="sm">
        {refused && !wrong && <ErrorState error={refused} />}
        <Group align="flex-start" gap="sm">
          <TextInput
            label={t("form.name")}
            placeholder={t("form.namePlaceholder")}
            value={given.name}
            onChange={set("name")}
            maxLength={MAX_NAME}
            error={errorOf("name")}
            style={{ flex: "1 1 260px" }}
            data-autofocus
            ref={first}
          />
          <TextInput
            label={t("form.tags")}
            description={t("form.tagsHelp")}
            inputWrapperOrder={["label", "input", "description", "error"]}
            value={given.tags}
            onChange={set("tags")}
            error={errorOf("tags")}
            style={{ flex: "1 1 260px" }}
          />
        </Group>
        <Textarea label={t("form.note")} value={given.note} onChange={set("note")} maxLength={MAX_NOTE} error={errorOf("note")} autosize minRows={2} maxRows={12} />
        <Group justify="flex-end" gap="xs">
          <Button variant="default" onClick={onDone} disabled={isPending}>
            {t("common:cancel")}
          </Button>
          <Button type="submit" loading={isPending}>
            {t("form.save")}
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
