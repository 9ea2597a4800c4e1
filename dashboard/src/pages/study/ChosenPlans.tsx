import { Affix, Button, Group, Paper, Text } from "@mantine/core";
import { IconArrowsLeftRight, IconX } from "@tabler/icons-react";
import { useTranslation } from "../../i18n";
import { Link } from "react-router";

const MOST_COMPARED = 4;

/** What can be done with the selected plans. */
export function ChosenPlans({ studyId, chosen, onClear }: { studyId: string; chosen: readonly string[]; onClear: () => void }) {
  const { t } = useTranslation("study");
  if (!chosen.length) return null;
  return (
    <Affix position={{ bottom: 20, left: 0, right: 0 }} style={{ pointerEvents: "none" }}>
      <Group justify="center" px="sm">
        <Paper shadow="lg" withBorder p="xs" radius="lg" style={{ pointerEvents: "auto" }} role="region" aria-label={t("chosen.title")}>
          <Group gap="xs">
            <Text size="sm" px="xs" aria-live="polite">
              {t("chosen.count", { count: chosen.length })}
            </Text>
            {chosen.length <= MOST_COMPARED ? (
              <Button component={Link} to={`/compare?plans=${chosen.map((planId) => `${studyId}:${planId}`).join(",")}`} leftSection={<IconArrowsLeftRight size={15} />}>
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
