import { Badge } from "@mantine/core";
import { IconBan, IconCheck, IconClock, IconLoader2, IconX } from "@tabler/icons-react";
import { useTranslation } from "../i18n";

import type { Schemas } from "../api/client";
import classes from "./StateBadge.module.css";

const LOOK = {
  queued: ["gray", IconClock],
  running: ["blue", IconLoader2],
  completed: ["teal", IconCheck],
  failed: ["red", IconX],
  cancelled: ["orange", IconBan],
} as const;

/** A study's state: colour, icon and word. */
export function StateBadge({ state }: { state: Schemas["ListedStudy"]["state"] }) {
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
