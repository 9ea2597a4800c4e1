import { Alert, Button, Progress, Stack, Text } from "@mantine/core";
import { IconBan, IconDownload } from "@tabler/icons-react";
import { useTranslation } from "../../i18n";

import type { Study } from "../../api/queries";
import { CopyButton } from "../../components/CopyButton";
import { ErrorState } from "../../components/ErrorState";
import { PageHeader } from "../../components/PageHeader";
import { saveFile } from "../../components/saveFile";
import { StateBadge } from "../../components/StateBadge";
import { ago, count, moment, percent } from "../../units/format";
import { CancelButton, ResumeButton } from "./StudyActions";

/** A study that is no search: how far it is, and its answer to save. */
export function OtherKind({ study }: { study: Study }) {
  const { t } = useTranslation("study");
  const { progress } = study;
  const [unit, all] = study.kind === "sweep" ? (["points", progress?.num_points] as const) : (["splits", progress?.num_splits] as const);
  const fraction = Number(progress?.done_fraction ?? 0);
  return (
    <>
      <PageHeader
        title={study.model}
        path={[{ label: t("common:nav.studies"), to: "/studies" }]}
        badges={<StateBadge state={study.state} />}
        subtitle={
          <>
            {t(`kind.title.${study.kind}`)} · {t("kind.subtitle", { devices: count(study.num_devices), hardware: study.hardware })} ·{" "}
            <span title={moment(study.created_at_s)}>{ago(study.created_at_s)}</span> · <code>{study.id}</code>
            <CopyButton text={study.id} />
          </>
        }
        actions={<CancelButton study={study} />}
      />
      {study.state === "failed" && (
        <ErrorState title={t("failed.title")} detail={study.error ?? t("failed.unknown")} action={<ResumeButton study={study} />} />
      )}
      {study.state === "cancelled" && (
        <Alert color="orange" variant="light" icon={<IconBan size={18} />} title={t("cancelled.title")} mb="md" c="inherit">
          <ResumeButton study={study} />
        </Alert>
      )}
      <Stack gap="sm" maw={560}>
        <Progress value={fraction * 100} aria-label={percent(fraction, 0)} />
        <Text>{progress ? t(`kind.${unit}`, { done: count(Number(progress.num_done ?? 0)), all: count(Number(all ?? 0)) }) : t("kind.waiting")}</Text>
        {study.result && (
          <>
            <Text>{t(`kind.answer.${study.kind}`)}</Text>
            <Button
              variant="default"
              leftSection={<IconDownload size={15} />}
              onClick={() => saveFile(`meshplan-${study.id}.json`, "application/json", JSON.stringify(study.result, null, 2))}
              style={{ alignSelf: "flex-start" }}
            >
              {t("kind.save")}
            </Button>
          </>
        )}
      </Stack>
    </>
  );
}
