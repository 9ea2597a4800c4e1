import { Alert, Badge, Button, Card, Group, Stack, Table, Text } from "@mantine/core";
import { IconZoomQuestion } from "@tabler/icons-react";
import { useTranslation } from "../../i18n";

import { answered, api, type Schemas } from "../../api/client";
import type { Plan, Study } from "../../api/queries";
import { Asking } from "../../components/Asking";
import { CardHead } from "../../components/CardHead";
import { ErrorState } from "../../components/ErrorState";
import { changeText, strategyText } from "../../components/strategy";
import { useAsked } from "../../components/useAsked";
import { number, percent, seconds, signedPercent } from "../../units/format";
import { quantityName } from "./quantity";

type Answer = Schemas["ExplainDocument"];

/** The job with this plan in place of what was searched: limits and sampler are those of the study. */
function requestOf(study: Study, plan: Plan): Schemas["JobDocument"] {
  const { model, cluster, training, software, assumed } = study.job as Record<string, unknown>;
  return { model, cluster, training, software, ...(assumed !== undefined && { assumed }), strategy: plan.strategy } as unknown as Schemas["JobDocument"];
}

/** This plan beside the fastest other one, and how wrong a number would have to be for their order to turn: searched when asked for. */
export function Explanation({ study, plan }: { study: Study; plan: Plan }) {
  const { t } = useTranslation("plan");
  const { answer, refusal, sinceMs, isBusy, ask, giveUp } = useAsked<Answer>();
  return (
    <Card component="section" aria-labelledby="beside-others">
      <CardHead title={t("beside.title")} id="beside-others" help={t("beside.help")}>
        {!answer && (
          <Button
            variant="default"
            loading={isBusy}
            leftSection={<IconZoomQuestion size={16} />}
            onClick={() => void ask((signal) => answered(api.POST("/v1/explanations", { body: requestOf(study, plan), signal })))}
          >
            {t("beside.ask")}
          </Button>
        )}
      </CardHead>
      {sinceMs !== null && <Asking sinceMs={sinceMs} text={t("beside.asking")} onGiveUp={giveUp} />}
      {refusal && <ErrorState error={refusal} />}
      {answer && <Found answer={answer} plan={plan} />}
    </Card>
  );
}

function Found({ answer, plan }: { answer: Answer; plan: Plan }) {
  const { t } = useTranslation("plan");
  const { other } = answer;
  if (!other) return <Text size="sm">{t("beside.nothing")}</Text>;
  const isPlanFaster = other.difference_fraction > 0;
  return (
    <Stack gap="sm" role="status" style={{ overflowWrap: "anywhere" }}>
      <div>
        <Text size="sm" c="dimmed">
          {t("beside.other")}
        </Text>
        <Group gap="xs">
          <Text fw={600}>{strategyText(other.strategy)}</Text>
          {other.is_tie && (
            <Badge variant="default" tt="none">
              {t("beside.tie")}
            </Badge>
          )}
        </Group>
        <Text size="sm">
          {t(isPlanFaster ? "beside.slower" : "beside.faster", {
            time: seconds(other.step_time_s),
            own: seconds(answer.estimate.step_time_s),
            share: percent(Math.abs(other.difference_fraction), 2),
            rank: plan.rank,
          })}{" "}
          {t(answer.proved_best ? "beside.proved" : "beside.notProved")}
        </Text>
        <Text size="sm">{t("beside.differs", { changes: changeText(other.changes) })}</Text>
        <Text size="sm" c="dimmed">
          {other.why}
        </Text>
      </div>
      {answer.would_fit && <Alert color="orange">{answer.would_fit}</Alert>}
      <Turning answer={answer} />
    </Stack>
  );
}

function Turning({ answer: { turning_points: points } }: { answer: Answer }) {
  const { t } = useTranslation("plan");
  return (
    <div>
      <Text size="sm" fw={550}>
        {t("beside.turning")}
      </Text>
      {points.length === 0 ? (
        <Text size="sm" c="dimmed">
          {t("beside.never")}
        </Text>
      ) : (
        <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("beside.turning")}>
          <Table verticalSpacing={5}>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{t("sensitivity.quantity")}</Table.Th>
                <Table.Th>{t("beside.where")}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {points.map(({ quantity, factor }) => (
                <Table.Tr key={quantity}>
                  <Table.Td>{quantityName(quantity, t)}</Table.Td>
                  <Table.Td>{t("beside.factor", { factor: number(factor, 3), change: signedPercent(factor - 1, 0) })}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Table.ScrollContainer>
      )}
    </div>
  );
}
