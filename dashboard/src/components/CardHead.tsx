import { Group, Text, Title, type MantineSpacing } from "@mantine/core";
import type { ReactNode } from "react";

import classes from "./CardHead.module.css";

interface Props {
  title: string;
  /** Of the title, for what it labels. */
  id?: string;
  /** What the card shows, below the title. */
  help?: ReactNode;
  mb?: MantineSpacing;
  /** Buttons on the right. */
  children?: ReactNode;
}

/** The head of a card: its title, a line about it, and what can be done with it. */
export function CardHead({ title, id, help, mb = "xs", children }: Props) {
  return (
    <Group justify="space-between" align="flex-start" gap="xs" mb={mb}>
      <div className={classes.words}>
        <Title order={2} {...(id && { id })}>
          {title}
        </Title>
        {help && (
          <Text size="sm" c="dimmed" component="div">
            {help}
          </Text>
        )}
      </div>
      {children && <Group gap="xs">{children}</Group>}
    </Group>
  );
}
