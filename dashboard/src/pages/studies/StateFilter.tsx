import { Chip, Group } from "@mantine/core";
import { useTranslation } from "../../i18n";

import type { ListedStudy } from "../../api/queries";
import { count } from "../../units/format";

export type State = ListedStudy["state"];

const STATES: readonly State[] = ["queued", "running", "completed", "failed", "cancelled"];

interface Props {
  /** Studies in each state. */
  numbers: Readonly<Record<string, number>>;
  chosen: readonly State[];
  onChange: (states: readonly string[]) => void;
}

/** One chip a state that occurs, with how many studies are in it. */
export function StateFilter({ numbers, chosen, onChange }: Props) {
  const { t } = useTranslation("studies");
  return (
    <Chip.Group multiple value={[...chosen]} onChange={onChange}>
      <Group gap={6} mb="sm" role="group" aria-label={t("column.state")}>
        {STATES.filter((state) => numbers[state] || chosen.includes(state)).map((state) => (
          <Chip key={state} value={state} size="xs" variant="outline">
            {t(`common:state.${state}`)} <span className="number">{count(numbers[state] ?? 0)}</span>
          </Chip>
        ))}
      </Group>
    </Chip.Group>
  );
}
