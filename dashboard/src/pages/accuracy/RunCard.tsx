import { Alert, Anchor, Card, CloseButton, Group, Stack, Text, Title } from "@mantine/core";
import { useEffect, useRef } from "react";
import { bracketed, marks, useTranslation } from "../../i18n";

import { FactList } from "../../components/FactList";
import { bytes, count, seconds, secondsRange, signedPercent } from "../../units/format";
import { errorOf, type Run } from "./errors";

/** The address in a source's `url`, which may go on in words. */
export function addressOf(url: string): string {
  return url.split(" ")[0] ?? url;
}

/** Everything about one published run, with where it stands. */
export function RunCard({ run, onClose }: { run: Run; onClose: () => void }) {
  const { t } = useTranslation("accuracy");
  const place = useRef<HTMLElement>(null);
  useEffect(() => {
    place.current?.scrollIntoView({ block: "nearest" });
  }, [run.id]);
  const strategy = Object.entries(run.strategy).filter(([, value]) => value !== null);
  return (
    <Card component="section" ref={place} aria-label={t("run.title", { id: run.id })} padding="md">
      <Stack gap="sm">
        <Group justify="space-between" wrap="nowrap" align="flex-start">
          <div>
            <Title order={2}>{run.model}</Title>
            <Text size="xs" c="dimmed" ff="monospace" style={{ overflowWrap: "anywhere" }}>
              {run.id}
            </Text>
          </div>
          <CloseButton onClick={onClose} aria-label={t("common:close")} />
        </Group>
        <FactList
          facts={[
            [t("column.hardware"), `${count(run.num_devices)} × ${run.hardware}${bracketed(t(`certainty.${run.hardware_basis}`, { defaultValue: run.hardware_basis }))}`],
            [t("column.framework"), run.framework],
            [t("column.precision"), run.precision],
            [t("column.seq"), count(run.seq_length)],
            [t("column.batch"), count(run.global_batch_size)],
            [t("column.strategy"), strategy.map(([name, value]) => `${name} ${count(value)}`).join(marks().comma)],
          ]}
        />
        <FactList
          facts={[
            [t("column.measured"), seconds(run.measured_step_time_s)],
            [t("run.shipped"), `${seconds(run.predicted_step_time_s)}${bracketed(signedPercent(errorOf(run, "shipped")))}`],
            [t("run.interval"), secondsRange(run.low_s, run.high_s)],
            [t("run.unseen"), errorOf(run, "unseen") === null ? t("run.untaught") : signedPercent(errorOf(run, "unseen"))],
            ...(run.measured_peak_memory_bytes
              ? [[t("run.memory"), `${bytes(run.measured_peak_memory_bytes)} / ${bytes(run.predicted_peak_memory_bytes)}${bracketed(signedPercent(run.memory_error_fraction))}`] as const]
              : []),
          ]}
        />
        {(run.suspect ?? run.refused) && (
          <Alert color="yellow" variant="light" py={8} lang="en">
            {run.suspect ?? run.refused}
          </Alert>
        )}
        {run.warnings.length > 0 && (
          <div>
            <Text size="sm" fw={550}>
              {t("run.warnings")}
            </Text>
            {run.warnings.map((warning) => (
              <Text key={warning} size="sm" c="dimmed" lang="en">
                {warning}
              </Text>
            ))}
          </div>
        )}
        <Text size="sm">
          {t("column.source")}:{" "}
          <Anchor href={addressOf(run.source.url)} target="_blank" rel="noreferrer" size="sm" underline="always">
            {run.source.title}
          </Anchor>
          , {run.source.locator} ({run.source.date})
        </Text>
      </Stack>
    </Card>
  );
}
