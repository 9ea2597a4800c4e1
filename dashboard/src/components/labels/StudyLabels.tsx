import { Button, Card, Group, Text } from "@mantine/core";
import { IconArchive, IconArchiveOff, IconPencil, IconShare2 } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import type { Study } from "../../api/queries";
import { useTranslation } from "../../i18n";
import { moment } from "../../units/format";
import { ErrorState } from "../ErrorState";
import { termsQuery, useChange } from "./change";
import { deletedAtS, mayChange } from "./labels";
import { LabelsForm } from "./LabelsForm";
import { ShareDialog } from "./ShareDialog";
import { Tags } from "./Tags";

/** What a study is called, whose it is, who sees it and how long it is kept: shown, and changed in place. */
export function StudyLabels({ study }: { study: Study }) {
  const { t } = useTranslation("labels");
  const { data: terms } = useQuery(termsQuery());
  const { mutate, isPending, error } = useChange(study.id);
  const [isEdited, setEdited] = useState(false);
  const [isShared, setShared] = useState(false);
  const isMine = mayChange(study, terms);
  if (isEdited)
    return (
      <Card mb="md">
        <LabelsForm study={study} onDone={() => setEdited(false)} />
      </Card>
    );
  const deletedS = deletedAtS(study, terms);
  const facts = [
    study.archived ? t("archived") : null,
    study.owner === null ? t("ofNobody") : t("of", { owner: study.owner }),
    study.owner === null ? null : t(`visibility.${study.visibility}`),
    study.archived && terms?.keep_studies_days ? t("keptArchived") : null,
  ].filter((fact) => fact !== null);
  return (
    <section aria-label={t("edit")} style={{ marginBottom: "var(--mantine-spacing-md)" }}>
      {error && <ErrorState error={error} />}
      <Group gap="xs">
        <Tags tags={study.tags} sayOf={(tag) => t("filterBy", { tag })} />
        <Text size="sm" c="dimmed" style={{ overflowWrap: "anywhere" }}>
          {facts.join(" · ")}
          {deletedS !== null && ` · ${t("until", { when: moment(deletedS) })}`}
        </Text>
        {isMine && (
          <Button size="compact-sm" variant="subtle" leftSection={<IconPencil size={14} />} onClick={() => setEdited(true)}>
            {t("edit")}
          </Button>
        )}
        <Button size="compact-sm" variant="subtle" leftSection={<IconShare2 size={14} />} onClick={() => setShared(true)}>
          {t("share.title")}
        </Button>
        {isMine && (
          <Button
            size="compact-sm"
            variant="subtle"
            leftSection={study.archived ? <IconArchiveOff size={14} /> : <IconArchive size={14} />}
            loading={isPending}
            onClick={() => mutate({ archived: !study.archived })}
          >
            {t(study.archived ? "unarchive" : "archive")}
          </Button>
        )}
      </Group>
      {study.note && (
        <Text size="sm" mt={6} maw="75ch" style={{ whiteSpace: "pre-wrap", overflowWrap: "anywhere" }}>
          {study.note}
        </Text>
      )}
      <ShareDialog study={study} isMine={isMine} opened={isShared} onClose={() => setShared(false)} />
    </section>
  );
}
