import { Affix, Button, Group, Paper, Text } from "@mantine/core";
import { IconArrowsLeftRight, IconX } from "@tabler/icons-react";
import { useTranslation } from "../../i18n";
import { Link } from "react-router";

const MOST_COMPARED = 4;

/** Where the chosen plans stand side by side; null where none is chosen, or more than a comparison takes. */
export const comparisonOf = (studyId: string, chosen: readonly string[]): string | null =>
  chosen.length > 0 && chosen.length <= MOST_COMPARED ? `/compare?plans=${chosen.map((planId) => `${studyId}:${planId}`).join(",")}` : null;

/** What can be done with the selected plans. */
export function ChosenPlans({ studyId, chosen, onClear }: { studyId: string; chosen: readonly string[]; onClear: () => void }) {
  const { t } = useTranslation("study");
  if (!chosen.length) return null;
  const comparison = comparisonOf(studyId, chosen);
  return (
    <Affix position={{ bottom: 20, left: 0, right: 0 }} style={{ pointerEvents: "none" }}>
      <Group justify="center" px="sm">
        <Paper shadow="lg" withBorder p="xs" radius="lg" style={{ pointerEvents: "auto" }} role="region" aria-label={t("chosen.title")}>
          <Group gap="xs">
            <Text size="sm" px="xs" aria-live="polite">
              {t("chosen.count", { count: chosen.length })}
            </Text>
            {comparison ? (
              <Button component={Link} to={comparison} leftSection={<IconArrowsLeftRight size={15} />}>
                {t("action.compare")}
              </Button>
            ) : (
              <Text size="sm" c="dimmed">
                {t("chosen.tooMany", { count: MOST_COMPARED })}
              </Text>
            )}
            <Button variant="subtle" color="gray" leftSection={<IconX size={15} />} onClick={onClear}>
              {t("chosen.clear")}
            </Button>
          </Group>
        </Paper>
      </Group>
    </Affix>
  );
}
