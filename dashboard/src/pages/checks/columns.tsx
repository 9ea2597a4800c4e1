import { Anchor, Group, Stack, Text } from "@mantine/core";
import { IconExternalLink } from "@tabler/icons-react";
import { useMemo } from "react";
import { Link } from "react-router";
import { marks, useTranslation } from "../../i18n";

import type { Column } from "../../components/DataTable";
import { StateBadge } from "../../components/StateBadge";
import { ago, count, moment, seconds, signedPercent } from "../../units/format";
import type { History, KeptCheck } from "./data";
import { causesOf, changeOf, failedLines, shown, worse } from "./trends";
import { addressOf, useWords } from "./words";

const MOST_CHANGES = 2;
const wrapping = { overflowWrap: "anywhere" } as const;

export function useHistoryColumns(hasOwners: boolean): Column<History>[] {
  const { t, i18n } = useTranslation("checks");
  return useMemo(
    (): Column<History>[] => [
      {
        key: "name",
        header: t("history"),
        fixed: true,
        value: ({ name }) => name,
        cell: (history) => (
          <Anchor component={Link} to={addressOf(history)} inherit fw={550} c="inherit" miw={130} display="block" style={wrapping}>
            {history.name}
          </Anchor>
        ),
      },
      ...(hasOwners ? [{ key: "owner", header: t("owner"), value: ({ owner }: History) => owner, cell: ({ owner }: History) => owner ?? t("nobody") }] : []),
      { key: "status", header: t("status"), value: ({ last }) => last.status, cell: ({ last }) => <StateBadge state={last.status} /> },
      {
        key: "last",
        csv: "last_at_s",
        header: t("last"),
        value: ({ last }) => last.created_at_s,
        cell: ({ last }) => <span title={moment(last.created_at_s)}>{ago(last.created_at_s)}</span>,
      },
      { key: "step", csv: "step_time_s", header: t("metric.step_time_s"), numeric: true, value: ({ last }) => last.metrics.step_time_s, cell: ({ last }) => seconds(last.metrics.step_time_s) },
      { key: "number", csv: "num_checks", header: t("number"), numeric: true, value: (history) => history.num_checks, cell: (history) => count(history.num_checks) },
      {
        key: "notPassed",
        csv: "num_not_passed",
        header: t("notPassed"),
        help: t("notPassedHelp"),
        numeric: true,
        value: (history) => history.num_not_passed,
        cell: (history) => count(history.num_not_passed),
      },
      { key: "model", header: t("model"), value: ({ last }) => last.model, cell: ({ last }) => <span style={wrapping}>{last.model ?? "–"}</span> },
      { key: "hardware", header: t("hardware"), value: ({ last }) => last.hardware, cell: ({ last }) => <span style={wrapping}>{last.hardware ?? "–"}</span> },
      { key: "devices", csv: "num_devices", header: t("devices"), numeric: true, shown: false, value: ({ last }) => last.num_devices, cell: ({ last }) => count(last.num_devices) },
      { key: "first", csv: "first_at_s", header: t("first"), shown: false, value: (history) => history.first_at_s, cell: (history) => moment(history.first_at_s) },
    ],
    [t, i18n, hasOwners],
  );
}

/** `before` is the check before each, `metrics` what the trends show. */
export function useCheckColumns(before: ReadonlyMap<string, KeptCheck>, metrics: readonly string[]): Column<KeptCheck>[] {
  const { t } = useTranslation("checks");
  const words = useWords();
  return useMemo(
    (): Column<KeptCheck>[] => [
      { key: "status", header: t("status"), fixed: true, value: ({ status }) => status, cell: ({ status }) => <StateBadge state={status} /> },
      {
        key: "when",
        csv: { created_at_s: ({ created_at_s: at }) => at, id: ({ id }) => id },
        header: t("when"),
        value: ({ created_at_s: at }) => at,
        cell: (check) => (
          <Anchor component={Link} to={`/checks/${check.id}`} inherit c="inherit" style={{ whiteSpace: "nowrap" }} title={moment(check.created_at_s)}>
            {ago(check.created_at_s)}
          </Anchor>
        ),
      },
      {
        key: "commit",
        csv: { commit: ({ commit }) => commit, change_url: ({ change_url: url }) => url },
        header: t("commit"),
        value: ({ commit }) => commit,
        cell: (check) => <ChangeLink check={check} />,
      },
      { key: "branch", header: t("branch"), value: ({ branch }) => branch, cell: ({ branch }) => <Text size="sm" style={wrapping} miw={branch ? 120 : 0} maw={260}>{branch ?? "–"}</Text> },
      ...metrics.map((metric): Column<KeptCheck> => ({
        key: metric,
        header: words.metric(metric),
        numeric: true,
        value: (check) => check.metrics[metric],
        cell: (check) => <Value metric={metric} value={check.metrics[metric]} before={before.get(check.id)?.metrics[metric]} />,
      })),
      {
        key: "broken",
        csv: "failed",
        header: t("broken"),
        value: ({ lines }) => failedLines(lines).map(({ id }) => id).join("; ") || null,
        cell: ({ lines }) => (
          <Text size="sm" miw={100} maw={280} style={wrapping}>
            {failedLines(lines).map(words.line).join(marks().semicolon) || "–"}
          </Text>
        ),
      },
      {
        key: "moved",
        header: t("moved"),
        value: (check) => movedText(check, before.get(check.id), t),
        cell: (check) => (
          <Text size="sm" miw={150} maw={560} lineClamp={3} style={wrapping} title={movedText(check, before.get(check.id), t)}>
            {movedText(check, before.get(check.id), t)}
          </Text>
        ),
      },
      { key: "version", header: t("version"), shown: false, value: ({ version }) => version, cell: ({ version }) => version },
    ],
    [t, words, before, metrics],
  );
}

type T = ReturnType<typeof useTranslation>["t"];

/** What the baseline's comparison says of the job, else which of job and tool is another than in the check before. */
function movedText(check: KeptCheck, before: KeptCheck | undefined, t: T): string {
  const told = check.moved?.job_changes.slice(0, MOST_CHANGES) ?? [];
  if (told.length > 0) return told.join(marks().semicolon) + (check.moved && check.moved.job_changes.length > MOST_CHANGES ? " …" : "");
  const causes = causesOf(check, before).map((cause) => t(`cause.${cause}`));
  if (causes.length > 0) return causes.join(marks().list);
  return check.job_sha256 !== null && (check.moved || before) ? t("nothingMoved") : "–";
}

function Value({ metric, value, before }: { metric: string; value: number | undefined; before: number | undefined }) {
  const change = changeOf(value, before);
  const tone = worse(metric, change);
  return (
    <Stack gap={0}>
      {shown(metric, value)}
      {tone !== 0 && (
        <Text span size="xs" c={tone > 0 ? "var(--tone-bad)" : "var(--tone-good)"}>
          {signedPercent(change)}
        </Text>
      )}
    </Stack>
  );
}

/** The commit, and the way to its merge request. Its address is the pipeline's word: nothing of this page goes along. */
export function ChangeLink({ check }: { check: KeptCheck }) {
  const { t } = useTranslation("checks");
  const name = check.commit?.slice(0, 12) ?? (check.change_url ? t("change") : "–");
  if (!check.change_url) return <code>{name}</code>;
  return (
    <Anchor href={check.change_url} target="_blank" rel="noopener noreferrer nofollow" title={check.change_url} aria-label={`${t("openChange")}${marks().colon}${name}`}>
      <Group gap={4} wrap="nowrap" component="span">
        <code>{name}</code>
        <IconExternalLink size={13} aria-hidden />
      </Group>
    </Anchor>
  );
}
