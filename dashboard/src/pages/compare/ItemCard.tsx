import { ActionIcon, Anchor, Badge, Card, Group, Text, Tooltip } from "@mantine/core";
import { IconArrowBarToLeft, IconX } from "@tabler/icons-react";
import { useTranslation } from "../../i18n";
import { Link } from "react-router";

import { strategyText } from "../../components/strategy";
import { seriesColor } from "../../theme/palette";
import { usePalette } from "../../theme/usePalette";
import { count } from "../../units/format";
import classes from "./Compare.module.css";
import type { Item } from "./data";
import { PlanSelect } from "./PlanSelect";

interface Props {
  item: Item;
  place: number;
  onRemove: () => void;
  onFirst: () => void;
  onPlan: (planId: string) => void;
}

/** Who an item is. The first is what the others are compared with. */
export function ItemCard({ item: { letter, study, plan }, place, onRemove, onFirst, onPlan }: Props) {
  const { t } = useTranslation("compare");
  const palette = usePalette();
  return (
    <Card padding="sm" style={{ minWidth: 0, borderTop: `3px solid ${seriesColor(palette, place)}` }}>
      <Group justify="space-between" wrap="nowrap" gap={4} align="flex-start">
        <Group gap={8}>
          <span className={classes.letter} style={{ borderColor: seriesColor(palette, place) }}>
            {letter}
          </span>
          {place === 0 && (
            <Badge variant="default" tt="none" fw={500}>
              {t("reference")}
            </Badge>
          )}
        </Group>
        <Group gap={0} wrap="nowrap">
          {place > 0 && (
            <Tooltip label={t("makeReference", { letter })}>
              <ActionIcon variant="subtle" color="gray" aria-label={t("makeReference", { letter })} onClick={onFirst}>
                <IconArrowBarToLeft size={16} stroke={1.6} />
              </ActionIcon>
            </Tooltip>
          )}
          <Tooltip label={t("remove", { letter })}>
            <ActionIcon variant="subtle" color="gray" aria-label={t("remove", { letter })} onClick={onRemove}>
              <IconX size={16} stroke={1.6} />
            </ActionIcon>
          </Tooltip>
        </Group>
      </Group>
      <Anchor component={Link} to={`/studies/${study.id}`} c="inherit" fw={600} mt={6} style={{ overflowWrap: "anywhere" }}>
        {study.name || study.model}
      </Anchor>
      <Text size="xs" c="dimmed" className="number" style={{ whiteSpace: "normal" }}>
        {t("devices", { devices: count(study.num_devices), hardware: study.hardware })}
      </Text>
      {plan ? (
        <>
          <Anchor component={Link} to={`/studies/${study.id}/plans/${plan.plan_id}`} size="sm" mt={4} style={{ overflowWrap: "anywhere" }}>
            {t("planTitle", { rank: plan.rank, strategy: strategyText(plan.strategy) })}
          </Anchor>
          <PlanSelect studyId={study.id} plan={plan} letter={letter} onPlan={onPlan} />
        </>
      ) : (
        <Text size="sm" c="var(--tone-warn)" mt={4}>
          {t(study.result ? "noPlan" : "noPlanYet")}
        </Text>
      )}
    </Card>
  );
}
