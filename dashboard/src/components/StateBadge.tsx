import { Badge } from "@mantine/core";
import { IconBan, IconCheck, IconClock, IconLoader2, IconScissors, IconX } from "@tabler/icons-react";
import { useTranslation } from "../i18n";

import type { Schemas } from "../api/client";
import classes from "./StateBadge.module.css";

const LOOK = {
  queued: ["gray", IconClock],
  running: ["blue", IconLoader2],
  completed: ["teal", IconCheck],
  failed: ["red", IconX],
  cancelled: ["orange", IconBan],
  passed: ["teal", IconCheck],
  broken: ["red", IconX],
  infeasible: ["red", IconBan],
  cut: ["orange", IconScissors],
} as const;

/** A study's state, or what became of a check: colour, icon and word. */
export function StateBadge({ state }: { state: Schemas["ListedStudy"]["state"] | Schemas["KeptCheckSummary"]["status"] }) {
  const { t } = useTranslation();
  const [color, Icon] = LOOK[state];
  return (
    <Badge
      variant="light"
      color={color}
      tt="none"
      fw={550}
      className={classes.badge}
      leftSection={<Icon size={12} {...(state === "running" && { className: classes.turning })} />}
    >
      {t(`state.${state}`)}
    </Badge>
  );
}
