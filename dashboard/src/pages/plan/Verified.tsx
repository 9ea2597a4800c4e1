import { Alert, Card, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { useTranslation } from "../../i18n";
import { bytes, compact, count, moment } from "../../units/format";
import { verificationQuery } from "./data";
import classes from "./Plan.module.css";

const SIZES: Record<string, (value: number) => string> = { parameters: count, bytes: (value) => bytes(value, 5), FLOPs: (value) => `${compact(value, 5)}FLOP` };

/** Counts of the framework beside the price, rank by rank, where somebody had them kept. */
export function Verified({ studyId, planId }: { studyId: string; planId: string }) {
  const { t } = useTranslation("plan");
  const { data } = useQuery(verificationQuery(studyId, planId));
  const found = data?.verification;
  if (!found) return null;
  const failed = found.ranks.flatMap((rank) => rank.checks.filter((check) => !check.passed));
  return (
    <Card>
      <Title order={2} mb={4}>
        {t("verified.title")}
      </Title>
      <Text size="sm" c="dimmed" mb="xs">
        {t("verified.subtitle", { framework: found.framework, at: moment(data.created_at_s ?? 0) })}
      </Text>
      <Alert color={found.passed ? "green" : "orange"} variant="light" mb="xs">
        {found.passed ? t("verified.agrees") : t("verified.differs")}
        {failed.map((check) => (
          <div key={check.sentence}>{check.sentence}</div>
        ))}
      </Alert>
      <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("verified.title")}>
        <Table className={classes.waterfall} horizontalSpacing="sm" verticalSpacing={4}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("verified.rank")}</Table.Th>
              <Table.Th>{t("verified.count")}</Table.Th>
              <Table.Th ta="right">{t("verified.counted")}</Table.Th>
              <Table.Th ta="right">{t("verified.predicted")}</Table.Th>
              <Table.Th ta="right">{t("verified.ratio")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {found.ranks.flatMap((rank) =>
              rank.rows.map((row, index) => {
                const size = SIZES[row.unit] ?? count;
                const name = t(`verified.quantity.${row.quantity}`, { defaultValue: row.quantity });
                return (
                  <Table.Tr key={`${rank.pipeline_rank}.${row.quantity}.${row.detail}`}>
                    <Table.Td>{index === 0 && rank.pipeline_rank}</Table.Td>
                    <Table.Td>{row.detail ? t("verified.of", { name, detail: row.detail }) : name}</Table.Td>
                    <Table.Td className={classes.figure}>{size(row.counted)}</Table.Td>
                    <Table.Td className={classes.figure}>{size(row.predicted)}</Table.Td>
                    <Table.Td className={classes.figure}>
                      <Text span size="sm" {...(row.within ? {} : { c: "red", fw: 600 })}>
                        {row.ratio === null ? "-" : row.ratio.toFixed(4)}
                      </Text>
                    </Table.Td>
                  </Table.Tr>
                );
              }),
            )}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Card>
  );
}
