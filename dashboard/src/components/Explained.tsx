import { Tooltip, UnstyledButton } from "@mantine/core";
import { IconInfoCircle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { marks, useTranslation } from "../i18n";

/** A word with an explanation behind a mark that mouse, finger and keyboard can reach. */
export function Explained({ children, text }: { children: ReactNode; text: string }) {
  const { t } = useTranslation();
  return (
    <span style={{ display: "inline-flex", alignItems: "center", gap: 4 }}>
      {children}
      <Tooltip label={text}>
        <UnstyledButton aria-label={`${t("explain")}${marks().colon}${text}`} style={{ display: "inline-flex", color: "var(--text-faint)" }}>
          <IconInfoCircle size={14} stroke={1.6} />
        </UnstyledButton>
      </Tooltip>
    </span>
  );
}
