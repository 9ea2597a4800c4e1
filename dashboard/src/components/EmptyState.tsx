import { Stack, Text, Title } from "@mantine/core";
import type { Icon } from "@tabler/icons-react";
import type { ReactNode } from "react";

interface Props {
  icon: Icon;
  title: string;
  text?: ReactNode;
  action?: ReactNode;
  /** 1 where it is all that the page has. */
  order?: 1 | 2;
}

/** Nothing here, why, and what to do about it. */
export function EmptyState({ icon: Icon, title, text, action, order = 2 }: Props) {
  return (
    <Stack align="center" gap="xs" py={64} px="md" ta="center">
      <Icon size={40} stroke={1.2} color="var(--text-faint)" aria-hidden />
      <Title order={order} mt="xs">
        {title}
      </Title>
      {text && (
        <Text c="dimmed" maw={520} style={{ overflowWrap: "anywhere" }}>
          {text}
        </Text>
      )}
      {action && <div style={{ marginTop: 12 }}>{action}</div>}
    </Stack>
  );
}
