import { Badge, Tooltip } from "@mantine/core";
import { IconCircleCheck, IconCircleDashed, IconSpeakerphone } from "@tabler/icons-react";
import { useTranslation } from "../../i18n";

import type { Schemas } from "../../api/client";

export type Status = Schemas["HardwareSummary"]["status"];
export const STATUSES: readonly Status[] = ["validated", "unvalidated", "roadmap"];

const LOOK = {
  validated: ["var(--tone-good)", IconCircleCheck],
  unvalidated: ["var(--text-muted)", IconCircleDashed],
  roadmap: ["var(--tone-warn)", IconSpeakerphone],
} as const;

/** How far measured runs back a profile: colour, icon and word. */
export function StatusBadge({ status }: { status: Status }) {
  const { t } = useTranslation("hardware");
  const [color, Icon] = LOOK[status];
  return (
    <Tooltip label={t(`statusHelp.${status}`)}>
      <Badge
        variant="outline"
        tt="none"
        fw={550}
        leftSection={<Icon size={12} aria-hidden />}
        style={{ "--badge-color": color, "--badge-bd": `1px solid ${color}`, flexShrink: 0, minWidth: "max-content" }}
      >
        {t(`status.${status}`)}
      </Badge>
    </Tooltip>
  );
}
