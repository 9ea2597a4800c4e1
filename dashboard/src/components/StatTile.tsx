import { Card, Text } from "@mantine/core";
import type { ReactNode } from "react";

import { Explained } from "./Explained";

interface Props {
  label: string;
  /** With its unit, from units/format. */
  value: ReactNode;
  /** Below: an interval, a comparison, a share. */
  note?: ReactNode;
  /** What the quantity is, for the question mark. */
  help?: string;
  tone?: "good" | "bad" | "warn";
}

export function StatTile({ label, value, note, help, tone }: Props) {
  return (
    <Card padding="sm" style={{ minWidth: 0 }}>
      <Text size="sm" c="dimmed" component="div">
        {help ? <Explained text={help}>{label}</Explained> : label}
      </Text>
      <Text
        className="number"
        component="div"
        fz="clamp(1.125rem, 5.2vw, 1.375rem)"
        fw={600}
        lh={1.35}
        style={{ letterSpacing: "-0.01em", whiteSpace: "normal", overflowWrap: "anywhere" }}
        {...(tone && { c: `var(--tone-${tone})` })}
      >
        {value}
      </Text>
      {note && (
        <Text size="xs" c="dimmed" component="div" className="number" style={{ whiteSpace: "normal", overflowWrap: "anywhere" }}>
          {note}
        </Text>
      )}
    </Card>
  );
}
