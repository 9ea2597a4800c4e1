import { Alert, Button, Card, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { useTranslation } from "../../i18n";

import type { Schemas } from "../../api/client";
import { CardHead } from "../../components/CardHead";
import { CodeBlock } from "../../components/CodeBlock";
import { saveFile } from "../../components/saveFile";
import { StatTile } from "../../components/StatTile";
import { count, number, percent, signedPercent } from "../../units/format";
import { ConstantTable } from "./ConstantTable";

/** One fitted calibration: whether it helps, what it moved, and how a job names it. */
export function CalibrationCard({ calibration }: { calibration: Schemas["CalibrationDocument"] }) {
  const { t } = useTranslation("accuracy");
  const { id, hardware, stack, errors, warnings, refused, time_factor: factor } = calibration;
  const steps = ["before", "left_out", "fitted"] as const;
  return (
    <Card component="section" aria-label={t("calibration.title", { id })}>
      <Stack gap="sm">
        <CardHead title={t("calibration.title", { id })} help={t("calibration.of", { count: calibration.num_runs, stack, hardware })} mb={0}>
          <Button
            variant="default"
            leftSection={<IconDownload size={15} />}
            onClick={() => saveFile(`${hardware}-${stack}.json`, "application/json", `${JSON.stringify(calibration.calibration, null, 1)}\n`)}
          >
            {t("calibration.download")}
          </Button>
        </CardHead>
        {warnings.length > 0 && (
          <Alert color="yellow" variant="light" py={8}>
            {warnings.map((warning) => (
              <Text key={warning} size="sm" lang="en">
                {warning}
              </Text>
            ))}
          </Alert>
        )}
        <SimpleGrid cols={{ base: 1, xs: 3 }} spacing="sm">
          {steps.map((step) => (
            <StatTile
              key={step}
              label={t(`calibration.error.${step}`)}
              value={percent(errors[step].median_abs_error_fraction)}
              help={t(`calibration.help.${step}`, { by: t(`calibration.by.${errors.left_out_by}`) })}
              note={t("calibration.meanBias", { mean: percent(errors[step].mean_abs_error_fraction), bias: signedPercent(errors[step].bias_fraction) })}
            />
          ))}
        </SimpleGrid>
        {factor && (
          <Text size="sm" c="dimmed">
            {t("calibration.factor", { value: number(factor.value), count: factor.num_runs, inside: count(factor.num_inside) })}
          </Text>
        )}
        <CodeBlock label={t("calibration.use")} text={JSON.stringify({ software: { calibration: id } }, null, 1)} />
        <ConstantTable constants={calibration.constants} of={id} />
        {refused.length > 0 && (
          <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("calibration.refused")}>
            <Table verticalSpacing={4} fz="sm">
              <Table.Thead>
                <Table.Tr>
                  <Table.Th>{t("calibration.refused")}</Table.Th>
                  <Table.Th>{t("calibration.reason")}</Table.Th>
                </Table.Tr>
              </Table.Thead>
              <Table.Tbody>
                {refused.map(({ id: run, reason }) => (
                  <Table.Tr key={run}>
                    <Table.Td ff="monospace">{run}</Table.Td>
                    <Table.Td lang="en">{reason}</Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Table.ScrollContainer>
        )}
      </Stack>
    </Card>
  );
}
