import { Alert, Button, Card, Group, Stack, Table, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useEffect } from "react";
import { loadStrings, useTranslation } from "../../i18n";

import type { Study } from "../../api/queries";
import { CardHead } from "../../components/CardHead";
import { Explained } from "../../components/Explained";
import { ErrorState } from "../../components/ErrorState";
import { LoadingRows } from "../../components/Loading";
import { count, percent } from "../../units/format";
import { rejectionsQuery, type Counts } from "./data";
import classes from "./Study.module.css";

const MEMORY = "memory"; // not a rule: what is legal but too large

/** Why strategies are no plans: the rules they break, the memory they need. */
export function RejectionsTab({ study, counts }: { study: Study; counts: Counts }) {
  const { t } = useTranslation("study");
  useEffect(() => void loadStrings("rules"), []);
  const { data: rejections, error, refetch } = useQuery(rejectionsQuery(study.id));
  if (error) return <ErrorState error={error} action={<Button onClick={() => void refetch()}>{t("common:error.retry")}</Button>} />;
  if (!rejections) return <LoadingRows />;

  const tooLarge = counts.estimated != null && counts.fits_memory != null ? counts.estimated - counts.fits_memory : 0;
  const rows = [
    ...(tooLarge > 0 ? [{ rule: MEMORY, count: tooLarge, example: t("rejections.memoryText") }] : []),
    ...rejections,
  ].sort((a, b) => b.count - a.count);
  const most = rows[0]?.count ?? 1;
  if (!rows.length) return <Alert color="gray">{t("rejections.none")}</Alert>;
  return (
    <Card>
      <Group justify="space-between" mb="xs" gap="xs">
        <CardHead title={t("rejections.title")} help={t("rejections.subtitle", { enumerated: count(counts.enumerated) })} mb={0} />
      </Group>
      <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("rejections.title")}>
        <Table className={classes.rules} verticalSpacing={7}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("rejections.rule")}</Table.Th>
              <Table.Th className={classes.figure}>{t("rejections.count")}</Table.Th>
              <Table.Th className={classes.figure}>{t("rejections.share")}</Table.Th>
              <Table.Th className={classes.ruleBarColumn}>
                <span className="visually-hidden">{t("rejections.bar")}</span>
              </Table.Th>
              <Table.Th>
                <Explained text={t("rejections.exampleHelp")}>{t("rejections.example")}</Explained>
              </Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {rows.map(({ rule, count: number, example }) => (
              <Table.Tr key={rule}>
                <Table.Td>
                  <Stack gap={0} miw={180}>
                    <span>{rule === MEMORY ? t("rejections.memory") : t(`rules:${rule}`, { defaultValue: rule })}</span>
                    <Text size="xs" c="dimmed" ff="monospace">
                      {rule}
                    </Text>
                  </Stack>
                </Table.Td>
                <Table.Td className={classes.figure}>{count(number)}</Table.Td>
                <Table.Td className={classes.figure}>{counts.enumerated ? percent(number / counts.enumerated) : "–"}</Table.Td>
                <Table.Td className={classes.ruleBarColumn}>
                  <div className={classes.ruleBar} style={{ width: `${(number / most) * 100}%` }} />
                </Table.Td>
                <Table.Td miw={260}>{example}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Card>
  );
}
