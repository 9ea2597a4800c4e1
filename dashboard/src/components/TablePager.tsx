import { ActionIcon, Group, NativeSelect, Text } from "@mantine/core";
import { IconChevronLeft, IconChevronRight } from "@tabler/icons-react";
import { useTranslation } from "../i18n";

import { count } from "../units/format";

const SIZES = [10, 25, 50, 100];

interface Props {
  /** Rows at hand, which have pages, and all that there are. */
  rows: number;
  total: number;
  size: number;
  page: number;
  onSize: (size: number) => void;
  onPage: (page: number) => void;
}

/** Which rows of a long table are shown, and how many at a time. */
export function TablePager({ rows, total, size, page, onSize, onPage }: Props) {
  const { t } = useTranslation();
  const last = Math.max(1, Math.ceil(rows / size));
  return (
    <Group justify="space-between" gap="xs" mt="xs">
      <Group gap="xs" wrap="nowrap">
        <NativeSelect
          size="xs"
          aria-label={t("table.rows")}
          value={size}
          data={[...new Set([...SIZES, size])].sort((a, b) => a - b).map((rows) => ({ value: String(rows), label: t("table.rowsOf", { rows: count(rows) }) }))}
          onChange={(event) => onSize(Number(event.currentTarget.value))}
        />
        <Text size="sm" c="dimmed" className="number" aria-live="polite">
          {t("table.range", { first: count((page - 1) * size + 1), last: count(Math.min(rows, page * size)), total: count(total) })}
        </Text>
      </Group>
      <Group gap={4} wrap="nowrap">
        <ActionIcon variant="default" size={30} aria-label={t("table.before")} disabled={page <= 1} onClick={() => onPage(page - 1)}>
          <IconChevronLeft size={16} stroke={1.6} />
        </ActionIcon>
        <ActionIcon variant="default" size={30} aria-label={t("table.after")} disabled={page >= last} onClick={() => onPage(page + 1)}>
          <IconChevronRight size={16} stroke={1.6} />
        </ActionIcon>
      </Group>
    </Group>
  );
}
