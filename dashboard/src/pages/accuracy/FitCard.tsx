import { Button, Card, Group, Select, Stack } from "@mantine/core";
import { IconAdjustments } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useTranslation } from "../../i18n";

import { answered, api, type Schemas } from "../../api/client";
import { CardHead } from "../../components/CardHead";
import { ErrorState } from "../../components/ErrorState";
import { CalibrationCard } from "./CalibrationCard";
import { factsOf, type OwnRun } from "./own";
import { stackOf } from "./runFile";

interface Props {
  runs: readonly OwnRun[];
  calibrations: readonly Schemas["ShippedCalibration"][];
}

/** Moves the shipped constants to the stored runs of one hardware and stack. */
export function FitCard({ runs, calibrations }: Props) {
  const { t } = useTranslation("accuracy");
  const queries = useQueryClient();
  const names = useMemo(() => [...new Set(runs.map((run) => factsOf(run).hardware))].filter(Boolean).sort(), [runs]);
  const [hardware, setHardware] = useState<string | null>(names[0] ?? null);
  const known = stacksFor(calibrations, hardware);
  const framework = factsOf(runs.find((run) => factsOf(run).hardware === hardware) ?? (runs[0] as OwnRun)).framework;
  const [picked, setPicked] = useState<string | null>(null);
  const stack = picked && known.includes(picked) ? picked : (stackOf(framework, known) ?? null);
  const [isBusy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const [fitted, setFitted] = useState<Schemas["CalibrationDocument"] | null>(null);

  async function fit() {
    if (!hardware || !stack) return;
    setBusy(true);
    setFailure(null);
    setFitted(null);
    try {
      const made = await answered(api.POST("/v1/calibrations", { body: { hardware, stack, shared: false } }));
      setFitted(made);
      queries.setQueryData(["calibration", made.id], made);
      await queries.invalidateQueries({ queryKey: ["calibrations"] });
    } catch (error) {
      setFailure(error);
    } finally {
      setBusy(false);
    }
  }

  return (
    <>
      <Card component="section" aria-label={t("fit.title")}>
        <Stack gap="sm">
          <CardHead title={t("fit.title")} help={t("fit.help")} mb={0} />
          <Group gap="sm" align="flex-end">
            <Select label={t("column.hardware")} data={names} value={hardware} onChange={setHardware} allowDeselect={false} style={{ flex: "0 1 240px" }} />
            <Select label={t("column.stack")} data={known} value={stack} onChange={setPicked} allowDeselect={false} style={{ flex: "0 1 200px" }} />
            <Button leftSection={<IconAdjustments size={16} />} loading={isBusy} disabled={!hardware || !stack} onClick={() => void fit()}>
              {t("fit.start")}
            </Button>
          </Group>
          {failure !== null && <ErrorState error={failure} />}
        </Stack>
      </Card>
      {fitted && <CalibrationCard calibration={fitted} />}
    </>
  );
}

/** Stacks that measured runs name, those of the hardware's own family where one of its runs was published. */
function stacksFor(calibrations: Props["calibrations"], hardware: string | null): string[] {
  const own = calibrations.filter(({ coverage }) => coverage.some((covered) => covered.hardware === hardware));
  return [...new Set((own.length ? own : calibrations).flatMap(({ coverage }) => coverage.map(({ stack }) => stack)))].sort();
}
