import { Button, Card, Group, Loader, Text } from "@mantine/core";
import { useEffect, useState } from "react";
import { useTranslation } from "../i18n";

interface Props {
  sinceMs: number;
  /** What is being worked on. */
  text: string;
  onGiveUp: () => void;
}

/** The server works on an answer: for how long it has, and a way out. */
export function Asking({ sinceMs, text, onGiveUp }: Props) {
  const { t } = useTranslation();
  const [nowMs, setNowMs] = useState(sinceMs);
  useEffect(() => {
    const timer = setInterval(() => setNowMs(performance.now()), 1000);
    return () => clearInterval(timer);
  }, []);
  return (
    <Card role="status" aria-label={text}>
      <Group gap="sm">
        <Loader size={18} aria-hidden />
        <Text size="sm" style={{ flex: "1 1 200px" }}>
          {text}{" "}
          <Text span inherit c="dimmed" className="number" aria-hidden>
            {Math.max(0, Math.round((nowMs - sinceMs) / 1000))} s
          </Text>
        </Text>
        <Button variant="default" size="xs" onClick={onGiveUp}>
          {t("cancel")}
        </Button>
      </Group>
    </Card>
  );
}
