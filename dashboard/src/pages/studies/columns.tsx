import { Anchor, Group, Progress, Stack, Text, Tooltip } from "@mantine/core";
import { IconRosetteDiscountCheck } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "../../i18n";
import { Link } from "react-router";

import type { ListedStudy } from "../../api/queries";
import type { Column } from "../../components/DataTable";
import { belowLimit } from "../../components/fitLimit";
import { termsQuery } from "../../components/labels/change";
import { deletedAtS, mayChange, nameOf, tagsText } from "../../components/labels/labels";
import { Tags } from "../../components/labels/Tags";
import { StateBadge } from "../../components/StateBadge";
import { ago, bytes, count, duration, moment, percent, seconds, secondsRange, tokensPerSecond } from "../../units/format";
import { StudyMenu } from "./StudyMenu";

function spent(study: ListedStudy): number | null {
  if (study.started_at_s === null) return null;
  return (study.finished_at_s ?? Date.now() / 1000) - study.started_at_s;
}

/** What the search has found so far: its best plan, or while it runs, the best time that it reports. */
function bestTime(study: ListedStudy): number | null {
  const found = study.progress?.best_step_time_s;
  return study.best?.step_time_s ?? (typeof found === "number" ? found : null);
}

export interface StudyActs {
  onDelete: (study: ListedStudy) => void;
  onEdit: (study: ListedStudy) => void;
}

/** `hasOwners`: some of them are somebody's, so that it matters whose. */
export function useStudyColumns({ onDelete, onEdit }: StudyActs, hasOwners: boolean): Column<ListedStudy>[] {
  const { t, i18n } = useTranslation("studies");
  const { data: terms } = useQuery(termsQuery());
  return useMemo(
    (): Column<ListedStudy>[] => [
      {
        key: "model",
        header: t("column.study"),
        fixed: true,
        csv: { model: ({ model }) => model, name: ({ name }) => name, tags: ({ tags }) => tagsText(tags), id: ({ id }) => id },
        value: nameOf,
        cell: (study) => (
          <Stack gap={2} miw={160}>
            <Anchor component={Link} to={`/studies/${study.id}`} fw={550} c="inherit" lineClamp={2} style={{ overflowWrap: "anywhere" }} title={nameOf(study)}>
              {nameOf(study)}
            </Anchor>
            <Text size="xs" c="dimmed" style={{ overflowWrap: "anywhere" }}>
              {study.kind !== "search" && <>{t(`kind.${study.kind}`)} · </>}
              {study.name && <>{study.model} · </>}
              <span style={{ fontFamily: "var(--mantine-font-family-monospace)" }}>{study.id}</span>
            </Text>
            <Tags tags={study.tags} sayOf={(tag) => t("tagged", { tag })} />
          </Stack>
        ),
      },
      { key: "state", header: t("column.state"), value: (study) => study.state, cell: (study) => <State study={study} /> },
      {
        key: "hardware",
        header: t("column.hardware"),
        value: (study) => study.hardware,
        cell: (study) => (
          <Text size="sm" truncate maw={230} title={study.hardware}>
            {study.hardware}
          </Text>
        ),
      },
      { key: "devices", csv: "num_devices", header: t("column.devices"), numeric: true, value: (study) => study.num_devices, cell: (study) => count(study.num_devices) },
      {
        key: "step",
        csv: { step_time_s: bestTime, step_time_low_s: ({ best }) => best?.step_time_low_s, step_time_high_s: ({ best }) => best?.step_time_high_s },
        header: t("column.stepTime"),
        help: t("help.stepTime"),
        numeric: true,
        value: bestTime,
        cell: (study) => (
          <>
            {seconds(bestTime(study))}
            {study.best?.step_time_low_s != null && (
              <Text size="xs" c="dimmed">
                {secondsRange(study.best.step_time_low_s, study.best.step_time_high_s)}
              </Text>
            )}
          </>
        ),
      },
      {
        key: "mfu",
        csv: "mfu_fraction",
        header: t("column.mfu"),
        help: t("help.mfu"),
        numeric: true,
        value: (study) => study.best?.mfu_fraction,
        cell: (study) => percent(study.best?.mfu_fraction),
      },
      {
        key: "tokens",
        csv: "tokens_per_s",
        header: t("column.tokens"),
        numeric: true,
        shown: false,
        value: (study) => study.best?.tokens_per_s,
        cell: (study) => tokensPerSecond(study.best?.tokens_per_s),
      },
      {
        key: "memory",
        csv: "peak_memory_bytes",
        header: t("column.memory"),
        help: t("help.memory"),
        numeric: true,
        shown: false,
        value: (study) => study.best?.peak_memory_bytes,
        cell: (study) => bytes(study.best?.peak_memory_bytes),
      },
      {
        key: "headroom",
        csv: "below_fit_limit_bytes",
        header: t("column.headroom"),
        numeric: true,
        shown: false,
        value: ({ best }) => best && belowLimit(best),
        cell: ({ best }) => bytes(best && belowLimit(best)),
      },
      {
        key: "proved",
        header: t("column.proved"),
        help: t("help.proved"),
        value: (study) => study.proved_best,
        cell: (study) => <Proved study={study} />,
      },
      {
        key: "objective",
        header: t("column.objective"),
        shown: false,
        value: (study) => study.objective,
        cell: (study) => t(`common:objective.${study.objective}`),
      },
      { key: "sampler", header: t("column.sampler"), shown: false, value: (study) => study.sampler, cell: (study) => t(`common:sampler.${study.sampler}`, { defaultValue: study.sampler }) },
      {
        key: "duration",
        csv: "duration_s",
        header: t("column.duration"),
        shown: false,
        numeric: true,
        value: spent,
        cell: (study) => duration(spent(study)),
      },
      {
        key: "age",
        csv: "created_at_s",
        header: t("column.age"),
        numeric: true,
        value: (study) => study.created_at_s,
        cell: (study) => <span title={moment(study.created_at_s)}>{ago(study.created_at_s)}</span>,
      },
      { key: "owner", header: t("column.owner"), shown: hasOwners, value: (study) => study.owner, cell: (study) => study.owner ?? "–" },
      {
        key: "deleted",
        csv: "deleted_at_s",
        header: t("column.deleted"),
        help: t("help.deleted"),
        numeric: true,
        shown: false,
        value: (study) => deletedAtS(study, terms),
        cell: (study) => moment(deletedAtS(study, terms)),
      },
      { key: "menu", header: t("column.actions"), fixed: true, hiddenHeader: true, cell: (study) => <StudyMenu study={study} isMine={mayChange(study, terms)} onDelete={() => onDelete(study)} onEdit={() => onEdit(study)} /> },
    ],
    [t, i18n.language, onDelete, onEdit, hasOwners, terms],
  );
}

function State({ study }: { study: ListedStudy }) {
  const { t } = useTranslation("studies");
  const done = study.progress?.done_fraction;
  if (study.state === "running") {
    const fraction = typeof done === "number" ? done : 0;
    return (
      <Stack gap={4} miw={108}>
        <Group gap={6} wrap="nowrap">
          <StateBadge state="running" />
          <Text size="xs" c="dimmed" className="number">
            {percent(fraction, 0)}
          </Text>
        </Group>
        <Progress value={fraction * 100} size={4} aria-label={t("progressOf", { model: nameOf(study) })} />
      </Stack>
    );
  }
  if (study.error === null) return <StateBadge state={study.state} />;
  return (
    <Stack gap={2} maw={280}>
      <StateBadge state={study.state} />
      <Text size="xs" c="dimmed" lineClamp={2} title={study.error}>
        {study.error}
      </Text>
    </Stack>
  );
}

function Proved({ study }: { study: ListedStudy }) {
  const { t } = useTranslation("studies");
  if (study.kind === "search" && study.state === "completed" && study.best === null) return <Text size="sm" c="var(--tone-warn)" style={{ whiteSpace: "nowrap" }}>{t("noPlan")}</Text>;
  if (study.proved_best === null) return "–";
  if (!study.proved_best) return <Text size="sm" c="dimmed">{t("notProved")}</Text>;
  return (
    <Tooltip label={t("help.proved")}>
      <Group gap={4} wrap="nowrap" c="var(--tone-good)">
        <IconRosetteDiscountCheck size={16} stroke={1.7} aria-hidden />
        <Text size="sm" inherit style={{ whiteSpace: "nowrap" }}>
          {t("proved")}
        </Text>
      </Group>
    </Tooltip>
  );
}
