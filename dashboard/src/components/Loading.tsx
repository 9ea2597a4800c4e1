import { SimpleGrid, Skeleton, Stack, Text } from "@mantine/core";
import { useTimeout } from "@mantine/hooks";
import { useState } from "react";
import { useTranslation } from "../i18n";

const LONG_MS = 4000; // by then a reader wonders whether anything happens

/** Grey shapes where a table will be. */
export function LoadingRows({ rows = 8 }: { rows?: number }) {
  return (
    <Busy>
      {Array.from({ length: rows }, (_, row) => (
        <Skeleton key={row} height={34} radius="sm" />
      ))}
    </Busy>
  );
}

/** Grey shapes where stat tiles and a chart will be. */
export function LoadingPage({ tiles = 4 }: { tiles?: number }) {
  return (
    <Busy>
      <Skeleton height={28} width={280} />
      <SimpleGrid cols={{ base: 2, md: tiles }}>
        {Array.from({ length: tiles }, (_, tile) => (
          <Skeleton key={tile} height={84} radius="md" />
        ))}
      </SimpleGrid>
      <Skeleton height={320} radius="md" />
    </Busy>
  );
}

function Busy({ children }: { children: React.ReactNode }) {
  const { t } = useTranslation();
  const [isLong, setLong] = useState(false);
  useTimeout(() => setLong(true), LONG_MS, { autoInvoke: true });
  return (
    <Stack gap="sm" role="status" aria-label={t("loading")}>
      {isLong && <Text size="sm">{t("loadingLong")}</Text>}
      {children}
    </Stack>
  );
}
