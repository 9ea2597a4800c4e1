import { Anchor, Breadcrumbs, Group, Stack, Text, Title } from "@mantine/core";
import { useEffect, type ReactNode } from "react";
import { Link } from "react-router";

interface Props {
  title: string;
  /** One line below the title. */
  subtitle?: ReactNode;
  /** Pages above this one. */
  path?: readonly { label: string; to: string }[];
  /** Badges beside the title. */
  badges?: ReactNode;
  /** Buttons on the right. */
  actions?: ReactNode;
}

/** The page's only h1; also the browser tab's title. */
export function PageHeader({ title, subtitle, path = [], badges, actions }: Props) {
  useEffect(() => {
    document.title = `${title} · meshplan`;
  }, [title]);
  return (
    <Stack gap={4} mb="md">
      {path.length > 0 && (
        <Breadcrumbs
          separatorMargin={6}
          fz="sm"
          styles={{ root: { flexWrap: "wrap" }, breadcrumb: { whiteSpace: "normal", overflowWrap: "anywhere" } }}
        >
          {path.map(({ label, to }) => (
            <Anchor key={to} component={Link} to={to} size="sm" c="dimmed">
              {label}
            </Anchor>
          ))}
        </Breadcrumbs>
      )}
      <Group justify="space-between" align="flex-start" gap="sm">
        <Group gap="sm" style={{ minWidth: 0, flex: "1 1 280px" }}>
          <Title order={1} style={{ overflowWrap: "anywhere" }}>
            {title}
          </Title>
          {badges}
        </Group>
        {actions && <Group gap="xs">{actions}</Group>}
      </Group>
      {subtitle && (
        <Text c="dimmed" size="sm" component="div" style={{ overflowWrap: "anywhere" }}>
          {subtitle}
        </Text>
      )}
    </Stack>
  );
}
