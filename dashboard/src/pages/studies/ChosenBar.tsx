import { Affix, Button, Group, Paper, Text, Transition } from "@mantine/core";
import { IconArrowsLeftRight, IconTrash, IconX } from "@tabler/icons-react";
import { useTranslation } from "../../i18n";
import { Link } from "react-router";

import type { ListedStudy } from "../../api/queries";

interface Props {
  studies: readonly ListedStudy[];
  onClear: () => void;
  onDelete: () => void;
}

/** What can be done with the selected studies. */
export function ChosenBar({ studies, onClear, onDelete }: Props) {
  const { t } = useTranslation("studies");
  const comparable = studies.filter((study) => study.best !== null);
  return (
    <Affix position={{ bottom: 20, left: 0, right: 0 }} style={{ pointerEvents: "none" }}>
      <Transition mounted={studies.length > 0} transition="slide-up">
        {(style) => (
          <Group justify="center" style={style} px="sm">
            <Paper shadow="lg" withBorder p="xs" radius="lg" style={{ pointerEvents: "auto" }} role="region" aria-label={t("selection")}>
              <Group gap="xs">
                <Text size="sm" px="xs" aria-live="polite">
                  {t("selected", { count: studies.length })}
                </Text>
                {comparable.length > 0 && (
                  <Button
                    component={Link}
                    to={`/compare?studies=${comparable.map((study) => study.id).join(",")}`}
                    leftSection={<IconArrowsLeftRight size={15} />}
                  >
                    {t("action.compare")}
                  </Button>
                )}
                <Button variant="default" c="var(--tone-bad)" leftSection={<IconTrash size={15} />} onClick={onDelete}>
                  {t("action.delete")}
                </Button>
                <Button variant="subtle" color="gray" leftSection={<IconX size={15} />} onClick={onClear}>
                  {t("deselect")}
                </Button>
              </Group>
            </Paper>
          </Group>
        )}
      </Transition>
    </Affix>
  );
}
