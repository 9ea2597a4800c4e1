import { Alert, Card, Code, FileButton, Button, Group, Loader, Select, SimpleGrid, Stack, Text, Textarea } from "@mantine/core";
import { IconDatabaseOff, IconSend, IconUpload } from "@tabler/icons-react";
import { keepPreviousData, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { marks, Trans, useTranslation } from "../../i18n";

import { answered, api, type Schemas } from "../../api/client";
import { calibrationsQuery } from "../../api/queries";
import { CardHead } from "../../components/CardHead";
import { ChartCard } from "../../components/ChartCard";
import { DataTable, type Column } from "../../components/DataTable";
import { EmptyState } from "../../components/EmptyState";
import { ErrorState } from "../../components/ErrorState";
import { LoadingRows } from "../../components/Loading";
import { StatTile } from "../../components/StatTile";
import { useUrlText } from "../../state/url";
import { ago, count, moment, percent, seconds, secondsRange, signedPercent } from "../../units/format";
import { summarised } from "./errors";
import { FitCard } from "./FitCard";
import { factsOf, ownRunsQuery, type OwnRun } from "./own";
import { batches, NotRuns, recordsOf } from "./runFile";
import { Scatter } from "./Scatter";

interface Props {
  calibrations: readonly Schemas["ShippedCalibration"][];
}

/** The reader's own measured runs: sent, predicted, drawn, and what a calibration can learn from. */
export function OwnTab({ calibrations }: Props) {
  const { t } = useTranslation("accuracy");
  const [by, setBy] = useUrlText("by");
  const { data: stored } = useQuery(calibrationsQuery());
  // What was predicted last stays until the other predictions are here.
  const { data: runs, error, isPlaceholderData: isOld } = useQuery({ ...ownRunsQuery(by), placeholderData: keepPreviousData });
  return (
    <Stack gap="md">
      <SendCard />
      {error && <ErrorState error={error} />}
      {!runs && !error && <LoadingRows />}
      {runs?.length === 0 && <EmptyState icon={IconDatabaseOff} title={t("own.none.title")} text={t("own.none.text")} />}
      {runs && runs.length > 0 && (
        <>
          {stored && stored.length > 0 && <PredictedBy calibrations={stored} chosen={by} onChoose={setBy} isBusy={isOld} />}
          <OwnErrors runs={runs} />
          <FitCard runs={runs} calibrations={calibrations} />
        </>
      )}
    </Stack>
  );
}

interface PredictedByProps {
  calibrations: readonly Schemas["CalibrationSummary"][];
  chosen: string;
  onChoose: (id: string) => void;
  isBusy: boolean;
}

/** Whose constants predict: the shipped ones, or those that the reader's runs taught. */
function PredictedBy({ calibrations, chosen, onChoose, isBusy }: PredictedByProps) {
  const { t } = useTranslation("accuracy");
  const isKnown = !chosen || calibrations.some(({ id }) => id === chosen);
  return (
    <Select
      label={t("own.by.label")}
      description={chosen ? t("own.by.help") : t("own.by.shippedHelp")}
      maw={520}
      value={chosen}
      onChange={(id) => onChoose(id ?? "")}
      allowDeselect={false}
      rightSection={isBusy ? <Loader size={14} /> : undefined}
      data={[
        { value: "", label: t("own.by.shipped") },
        ...calibrations.map(({ id, hardware, stack, num_runs: runs }) => ({ value: id, label: t("own.by.fitted", { id, hardware, stack, count: runs }) })),
        ...(isKnown ? [] : [{ value: chosen, label: chosen }]),
      ]}
    />
  );
}

function SendCard() {
  const { t } = useTranslation("accuracy");
  const queries = useQueryClient();
  const [text, setText] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const [answer, setAnswer] = useState<Schemas["RunsDocument"] | null>(null);

  async function send(content: string) {
    setBusy(true);
    setFailure(null);
    setAnswer(null);
    try {
      const answers: Schemas["RunsDocument"][] = [];
      for (const runs of batches(recordsOf(content))) answers.push(await answered(api.POST("/v1/runs", { body: { runs } })));
      const sum = (name: "stored" | "refused") => answers.reduce((total, one) => total + one[name], 0);
      setAnswer({ items: answers.flatMap(({ items }) => items), stored: sum("stored"), refused: sum("refused") });
      setText("");
      await queries.invalidateQueries({ queryKey: ["runs"] });
    } catch (error) {
      setFailure(error);
    } finally {
      setBusy(false);
    }
  }

  const wrong = failure instanceof NotRuns ? t(`own.wrong.${failure.reason}`, { line: failure.line }) : null;
  return (
    <Card component="section" aria-label={t("own.send.title")}>
      <Stack gap="sm">
        <CardHead title={t("own.send.title")} help={<Trans text={t("own.send.help")} components={{ code: (words) => <Code>{words}</Code> }} />} mb={0} />
        <Textarea
          label={t("own.send.label")}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
          error={wrong}
          autosize
          minRows={3}
          maxRows={10}
          spellCheck={false}
          styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", fontSize: "var(--mantine-font-size-sm)" } }}
        />
        <Group gap="xs">
          <FileButton accept=".jsonl,.json,.ndjson,.txt" onChange={(file) => void file?.text().then(send)}>
            {(props) => (
              <Button {...props} leftSection={<IconUpload size={15} />} loading={isBusy}>
                {t("own.send.upload")}
              </Button>
            )}
          </FileButton>
          <Button variant="default" leftSection={<IconSend size={15} />} disabled={!text.trim() || isBusy} onClick={() => void send(text)}>
            {t("own.send.paste")}
          </Button>
        </Group>
        {failure !== null && !wrong && <ErrorState error={failure} />}
        {answer && <Sent answer={answer} />}
      </Stack>
    </Card>
  );
}

function Sent({ answer }: { answer: Schemas["RunsDocument"] }) {
  const { t } = useTranslation("accuracy");
  const refused = answer.items.filter((item) => item.refused !== null);
  const predicted = answer.items.length - refused.length;
  return (
    <Alert role="status" color={refused.length ? "yellow" : "teal"} variant="light" styles={{ label: { color: "var(--mantine-color-text)" } }} title={t("own.sent.title", { count: predicted, all: count(answer.items.length) })}>
      <Text size="sm">{t("own.sent.stored", { count: answer.stored })}</Text>
      {refused.length > 0 && (
        <Stack gap={4} mt="xs" component="ul" pl="md" mb={0}>
          {refused.slice(0, 20).map(({ id, refused: reason }, index) => (
            <Text key={`${id} ${index}`} size="sm" component="li">
              <Code>{id}</Code> <span lang="en">{reason}</span>
            </Text>
          ))}
        </Stack>
      )}
    </Alert>
  );
}

const GROUPS = [{ key: "own" }] as const;

function OwnErrors({ runs }: { runs: readonly OwnRun[] }) {
  const { t, i18n } = useTranslation("accuracy");
  const [chosen, setChosen] = useUrlText("run");
  const errors = useMemo(() => {
    const predictions = runs.flatMap(({ prediction }) => (prediction?.error_fraction == null ? [] : [prediction]));
    const inside = predictions.filter(({ low_s: low, high_s: high, measured_step_time_s: time }) => low !== null && high !== null && time !== null && low <= time && time <= high);
    return summarised(predictions.map(({ error_fraction: error }) => error ?? 0), predictions.length ? inside.length / predictions.length : null);
  }, [runs]);
  const points = useMemo(
    () =>
      runs.flatMap((run) => {
        const { predicted_step_time_s: predicted, measured_step_time_s: measured } = run.prediction ?? {};
        if (predicted == null || measured == null) return [];
        const { model, devices, hardware, framework } = factsOf(run);
        return [{ id: run.record_sha256, group: "own", title: `${model}${marks().comma}${devices ?? "?"} × ${hardware}`, detail: framework, measured, predicted }];
      }),
    [runs],
  );
  const groups = useMemo(() => GROUPS.map(({ key }) => ({ key, name: t("chart.own") })), [t]);
  const columns = useMemo(
    (): Column<OwnRun>[] => [
      {
        key: "run",
        header: t("column.run"),
        fixed: true,
        value: (run) => factsOf(run).model,
        cell: (run) => (
          <Stack gap={0} miw={160} maw={320}>
            <Text size="sm" fw={550} style={{ overflowWrap: "anywhere" }}>
              {factsOf(run).model}
            </Text>
            <Text size="xs" c="dimmed" ff="monospace" style={{ overflowWrap: "anywhere" }}>
              {run.id}
            </Text>
          </Stack>
        ),
      },
      { key: "hardware", header: t("column.hardware"), value: (run) => factsOf(run).hardware, cell: (run) => <span className="number">{`${count(factsOf(run).devices)} × ${factsOf(run).hardware}`}</span> },
      { key: "framework", header: t("column.framework"), value: (run) => factsOf(run).framework, cell: (run) => factsOf(run).framework },
      { key: "measured", header: t("column.measured"), numeric: true, value: (run) => run.prediction?.measured_step_time_s, cell: (run) => seconds(run.prediction?.measured_step_time_s) },
      {
        key: "predicted",
        header: t("column.predicted"),
        numeric: true,
        value: (run) => run.prediction?.predicted_step_time_s,
        cell: ({ prediction }) => (
          <>
            {seconds(prediction?.predicted_step_time_s)}
            <Text size="xs" c="dimmed">
              {secondsRange(prediction?.low_s, prediction?.high_s)}
            </Text>
          </>
        ),
      },
      { key: "error", header: t("column.error"), numeric: true, value: (run) => run.prediction?.error_fraction, cell: (run) => signedPercent(run.prediction?.error_fraction) },
      { key: "age", header: t("own.age"), numeric: true, value: (run) => run.created_at_s, cell: (run) => <span title={moment(run.created_at_s)}>{ago(run.created_at_s)}</span> },
    ],
    [t, i18n.language],
  );
  return (
    <>
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }} spacing="sm">
        <StatTile label={t("own.stored")} value={count(runs.length)} />
        <StatTile label={t("errors.median")} value={percent(errors?.median)} help={t("errors.help.median")} />
        <StatTile label={t("errors.mean")} value={percent(errors?.mean)} help={t("errors.help.mean")} />
        <StatTile label={t("errors.p90")} value={percent(errors?.p90)} help={t("errors.help.p90")} />
        <StatTile label={t("errors.bias")} value={signedPercent(errors?.bias)} help={t("errors.help.bias")} />
        <StatTile label={t("errors.coverage")} value={percent(errors?.coverage, 0)} help={t("errors.help.coverage")} note={t("errors.nominal")} />
      </SimpleGrid>
      {points.length > 0 && (
        <ChartCard title={t("chart.title")}>
          <Scatter points={points} groups={groups} chosen={chosen} onChoose={setChosen} />
        </ChartCard>
      )}
      <DataTable
        label={t("own.runs")}
        rows={runs}
        columns={columns}
        rowKey={(run) => run.record_sha256}
        rowTone={(run) => (run.record_sha256 === chosen ? "strong" : undefined)}
        pageSize={25}
        toolbar={<Text fw={600}>{t("own.runs")}</Text>}
      />
    </>
  );
}
