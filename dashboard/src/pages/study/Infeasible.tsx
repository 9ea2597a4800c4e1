import { Anchor, Card, List, Stack, Table, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "../../i18n";
import { Link } from "react-router";

import type { Schemas } from "../../api/client";
import { modelsQuery, type Study } from "../../api/queries";
import { CardHead } from "../../components/CardHead";
import { storeModel } from "../../components/customModel";
import { strategyText } from "../../components/strategy";
import { bytes, percent, seconds } from "../../units/format";
import { changeText, studyAddress } from "./nearest";

interface Props {
  study: Study;
  infeasible: Schemas["InfeasibleDocument"];
}

/** What stood in the way of every plan, and the nearest jobs that have one. */
export function Infeasible({ study, infeasible }: Props) {
  const { t } = useTranslation("study");
  const { rules, leanest, peak_memory_bytes: peak, missing_bytes: missing, changes } = infeasible;
  return (
    <Stack mb="md">
      <Card component="section" aria-labelledby="in-the-way">
        <Title order={2} id="in-the-way" mb="xs">
          {t("nearest.inTheWay")}
        </Title>
        {leanest && (
          <Text size="sm" style={{ overflowWrap: "anywhere" }}>
            {t("nearest.leanest", { plan: strategyText(leanest), peak: bytes(peak), missing: bytes(missing) })}
          </Text>
        )}
        {rules.length > 0 && (
          <>
            <Text size="sm">{t("nearest.rules")}</Text>
            <List size="sm" mt={4} style={{ overflowWrap: "anywhere" }}>
              {rules.map(({ rule, sentence }) => (
                <List.Item key={rule}>
                  {t(`rules:${rule}`, { defaultValue: rule })}{" "}
                  <Text span inherit c="dimmed">
                    {sentence}
                  </Text>
                </List.Item>
              ))}
            </List>
          </>
        )}
        {!leanest && rules.length === 0 && <Text size="sm">{t("nearest.nothing")}</Text>}
      </Card>
      <Card>
        <CardHead title={t("nearest.title")} help={t(changes.length ? "nearest.help" : "nearest.none")} />
        {changes.length > 0 && <Changes study={study} changes={changes} />}
      </Card>
    </Stack>
  );
}

function Changes({ study, changes }: { study: Study; changes: Schemas["NearestChangeDocument"][] }) {
  const { t } = useTranslation("study");
  const presets = useQuery(modelsQuery()).data?.items.map(({ name }) => name) ?? [];
  const job = study.job as Record<string, Record<string, unknown>>;
  return (
    <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("nearest.title")}>
      <Table verticalSpacing={6}>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("nearest.change")}</Table.Th>
            <Table.Th>{t("nearest.plan")}</Table.Th>
            <Table.Th ta="right">{t("column.step")}</Table.Th>
            <Table.Th ta="right">{t("column.memory")}</Table.Th>
            <Table.Th ta="right">{t("nearest.sure")}</Table.Th>
            <Table.Th>
              <span className="visually-hidden">{t("nearest.study")}</span>
            </Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {changes.map(({ change, fields, strategy, estimate }) => {
            const text = changeText(fields, t) || change;
            const address = studyAddress(job, fields, presets);
            return (
              <Table.Tr key={change}>
                <Table.Td miw={140} fw={550} title={change}>
                  {text}
                </Table.Td>
                <Table.Td miw={200}>{strategyText(strategy)}</Table.Td>
                <Table.Td ta="right" className="number">
                  {seconds(estimate.step_time_s)}
                </Table.Td>
                <Table.Td ta="right" className="number">
                  {bytes(estimate.peak_memory_bytes)}
                </Table.Td>
                <Table.Td ta="right" className="number">
                  {percent(estimate.fits_probability, 0)}
                </Table.Td>
                <Table.Td style={{ whiteSpace: "nowrap" }}>
                  {address && (
                    <Anchor
                      component={Link}
                      size="sm"
                      to={address}
                      onClick={() => storeModel({ model: job.model ?? {}, num_parameters: null })}
                      aria-label={t("nearest.studyOf", { change: text })}
                    >
                      {t("nearest.study")}
                    </Anchor>
                  )}
                </Table.Td>
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
