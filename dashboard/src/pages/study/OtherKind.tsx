import { Alert, Button, Group, Progress, Stack, Text } from "@mantine/core";
import { IconBan, IconCopyPlus, IconDownload } from "@tabler/icons-react";
import { lazy, Suspense } from "react";
import { useTranslation, withStrings } from "../../i18n";
import { Link } from "react-router";

import type { Schemas } from "../../api/client";
import type { Study } from "../../api/queries";
import { CopyButton } from "../../components/CopyButton";
import { ErrorState } from "../../components/ErrorState";
import { LoadingPage } from "../../components/Loading";
import { nameOf } from "../../components/labels/labels";
import { PageHeader } from "../../components/PageHeader";
import { saveFile } from "../../components/saveFile";
import { StateBadge } from "../../components/StateBadge";
import { ago, count, moment, percent } from "../../units/format";
import { formOfJob } from "../rl/request";
import { Labels } from "./Labels";
import { CancelButton, ResumeButton } from "./StudyActions";

// Each answer is that of its own page, with the charts that this draws.
const SweepAnswer = lazy(async () => ({ default: (await withStrings("rarer", () => import("../sweep/Answer"))).Answer }));
const PlacementsAnswer = lazy(async () => ({ default: (await withStrings("rarer", () => import("../rl/Answer"))).Answer }));

/** A study that is no search: how far it is, and its answer as the page of its kind shows it. */
export function OtherKind({ study }: { study: Study }) {
  const { t } = useTranslation("study");
  const { progress } = study;
  const [unit, all] = study.kind === "sweep" ? (["points", progress?.num_points] as const) : (["splits", progress?.num_splits] as const);
  const again = study.kind === "sweep" ? `/sweep?from=${study.id}` : addressOfForm(formOfJob(study.job));
  const fraction = Number(progress?.done_fraction ?? 0);
  return (
    <>
      <PageHeader
        title={nameOf(study)}
        path={[{ label: t("common:nav.studies"), to: "/studies" }]}
        badges={<StateBadge state={study.state} />}
        subtitle={
          <>
            {study.name && `${study.model} · `}
            {t(`kind.title.${study.kind}`)} · {t("kind.subtitle", { devices: count(study.num_devices), hardware: study.hardware })} ·{" "}
            <span title={moment(study.created_at_s)}>{ago(study.created_at_s)}</span> · <code>{study.id}</code>
            <CopyButton text={study.id} />
          </>
        }
        actions={
          <>
            <CancelButton study={study} />
            {again && (
              <Button variant="default" component={Link} to={again} leftSection={<IconCopyPlus size={15} />}>
                {t("action.again")}
              </Button>
            )}
          </>
        }
      />
      <Labels study={study} />
      {study.state === "failed" && (
        <ErrorState title={t("failed.title")} detail={study.error ?? t("failed.unknown")} action={<ResumeButton study={study} />} />
      )}
      {study.state === "cancelled" && (
        <Alert color="orange" variant="light" icon={<IconBan size={18} />} title={t("cancelled.title")} mb="md" c="inherit">
          <ResumeButton study={study} />
        </Alert>
      )}
      <Stack gap="sm" maw={560} mb="md">
        <Progress value={fraction * 100} aria-label={percent(fraction, 0)} />
        <Text>{progress ? t(`kind.${unit}`, { done: count(Number(progress.num_done ?? 0)), all: count(Number(all ?? 0)) }) : t("kind.waiting")}</Text>
      </Stack>
      {study.result && (
        <Suspense fallback={<LoadingPage tiles={6} />}>
          <Found study={study} />
        </Suspense>
      )}
    </>
  );
}

const addressOfForm = (form: Record<string, string> | null) => form && `/rl?${new URLSearchParams(form)}`;

function Found({ study }: { study: Study }) {
  const { t } = useTranslation("study");
  return (
    <>
      <Group justify="flex-end" mb="md">
        <Button
          variant="default"
          leftSection={<IconDownload size={15} />}
          onClick={() => saveFile(`meshplan-${study.id}.json`, "application/json", JSON.stringify(study.result, null, 2))}
        >
          {t("kind.save")}
        </Button>
      </Group>
      {study.kind === "sweep" ? (
        <SweepAnswer sweep={study.result as unknown as Schemas["SweepDocument"]} />
      ) : (
        <PlacementsAnswer answer={study.result as unknown as Schemas["RlStudyResult"]} onLook={null} />
      )}
    </>
  );
}
