import { Badge, Card, List, Stack, Table, Text, Title } from "@mantine/core";
import { bracketed, useTranslation } from "../../i18n";

import type { Schemas } from "../../api/client";
import type { Study } from "../../api/queries";
import { strategyText } from "../../components/strategy";
import { percent, seconds, signedPercent } from "../../units/format";
import type { Result } from "./data";

/** Beside plans that can be launched, what physics alone would give; beside plans of physics alone, what can be launched. */
export function Beside({ study, result }: { study: Study; result: Result }) {
  const physics = result.physics_best; // studies of earlier versions have neither
  const nearest = result.nearest_launchable ?? [];
  const target = String((study.job.software as { target?: string } | undefined)?.target ?? "");
  if (physics) return <PhysicsAlone physics={physics} target={target} />;
  return nearest.length > 0 ? <Launchable nearest={nearest} /> : null;
}

function PhysicsAlone({ physics, target }: { physics: Schemas["PhysicsBestDocument"]; target: string }) {
  const { t } = useTranslation("study");
  const gain = physics.difference_fraction;
  const isPlanOne = physics.rules.length === 0;
  return (
    <Card component="section" aria-label={t("beside.physics")}>
      <Stack gap={4} style={{ overflowWrap: "anywhere" }}>
        <Title order={2}>{t("beside.physics")}</Title>
        {isPlanOne ? (
          <Text size="sm">{t("beside.same", { target })}</Text>
        ) : (
          <>
            <Text fw={600}>{strategyText(physics.strategy)}</Text>
            <Text size="sm">
              {gain == null
                ? t("beside.only", { time: seconds(physics.estimate.step_time_s), target })
                : t("beside.faster", { time: seconds(physics.estimate.step_time_s), share: percent(gain) })}
            </Text>
            <Text size="sm" c="dimmed">
              {physics.why}
            </Text>
            <Text size="sm">{t("beside.refused", { target })}</Text>
            <Rules rules={physics.rules} />
          </>
        )}
        {physics.stopped_by && (
          <Text size="sm" c="var(--tone-warn)">
            {t("beside.cut", { target })}
          </Text>
        )}
      </Stack>
    </Card>
  );
}

function Launchable({ nearest }: { nearest: Result["nearest_launchable"] }) {
  const { t } = useTranslation("study");
  return (
    <Card>
      <Title order={2} mb="xs">
        {t("beside.launchable")}
      </Title>
      <Table.ScrollContainer minWidth={0} type="native" tabIndex={0} role="region" aria-label={t("beside.launchable")}>
        <Table verticalSpacing={6}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("beside.framework")}</Table.Th>
              <Table.Th>{t("beside.step")}</Table.Th>
              <Table.Th>{t("beside.difference")}</Table.Th>
              <Table.Th>{t("beside.plan")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {nearest?.map(({ target, strategy, estimate, difference_fraction: gain, why, replaced, rules }) => (
              <Table.Tr key={target} style={{ verticalAlign: "top" }}>
                <Table.Td>{target}</Table.Td>
                <Table.Td className="number">{seconds(estimate?.step_time_s)}</Table.Td>
                <Table.Td className="number">{gain == null ? "–" : signedPercent(gain)}</Table.Td>
                <Table.Td miw={260}>
                  {estimate && !estimate.fits && (
                    <Badge variant="default" tt="none" size="sm">
                      {t("beside.tooLarge")}
                    </Badge>
                  )}
                  {strategy && <Text size="sm">{strategyText(strategy)}</Text>}
                  <Text size="sm" c="dimmed">
                    {why}
                  </Text>
                  <Sentences sentences={replaced} />
                  <Rules rules={rules} />
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Card>
  );
}

function Rules({ rules }: { rules: readonly Schemas["BrokenRuleDocument"][] }) {
  return <Sentences sentences={rules.map(({ rule, sentence }) => `${sentence}${bracketed(rule)}`)} />;
}

function Sentences({ sentences }: { sentences: readonly string[] }) {
  if (sentences.length === 0) return null;
  return (
    <List size="sm" spacing={2}>
      {sentences.map((sentence) => (
        <List.Item key={sentence} style={{ overflowWrap: "anywhere" }}>
          {sentence}
        </List.Item>
      ))}
    </List>
  );
}
