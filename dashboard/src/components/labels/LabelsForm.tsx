import { Button, Group, Stack } from "@mantine/core";
import { useEffect, useRef, useState, type SyntheticEvent } from "react";

import { toApiError } from "../../api/problem";
import type { Study } from "../../api/queries";
import { marks, useTranslation } from "../../i18n";
import { ErrorState } from "../ErrorState";
import { useRelabel } from "./change";
import { LabelFields } from "./LabelFields";
import { changesOf, tagsText, type Label } from "./labels";

/** Name, tags and note of a study to change. Escape gives up. */
export function LabelsForm({ study, onDone }: { study: Study; onDone: () => void }) {
  const { t } = useTranslation("labels");
  const [opened] = useState(study); // the page may show a newer one meanwhile, which the reader has not looked at
  const { mutate, isPending, error } = useRelabel(opened, (changed) => t("form.stale", { labels: changed.map((label) => t(`form.${label}`)).join(marks().list) }));
  const [given, setGiven] = useState({ name: opened.name, tags: tagsText(opened.tags), note: opened.note });
  const first = useRef<HTMLInputElement>(null);
  useEffect(() => first.current?.focus({ preventScroll: true }), []);
  const set = (label: Label, value: string) => setGiven((before) => ({ ...before, [label]: value }));
  const refused = error && toApiError(error);
  const wrong = refused?.problem.pointer?.split("/")[1];

  function save(event: SyntheticEvent) {
    event.preventDefault();
    const changes = changesOf(opened, given);
    if (Object.keys(changes).length) mutate(changes, { onSuccess: onDone });
    else onDone();
  }
  return (
    <form onSubmit={save} onKeyDown={({ key }) => key === "Escape" && onDone()}>
      <Stack gap="sm">
        {refused && !wrong && <ErrorState error={refused} />}
        <LabelFields given={given} set={set} errorOf={(label) => wrong === label && refused?.problem.detail} first={first} />
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
