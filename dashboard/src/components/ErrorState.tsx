import { Alert, Code, Group, Stack, Text } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { useTranslation } from "../i18n";

import { toApiError } from "../api/problem";

type Props = { action?: ReactNode } & ({ error: unknown } | { title: string; detail: string });

/** What went wrong: the server's own sentence and hint (problem+json), or our words where it is silent. */
export function ErrorState(props: Props) {
  const { t } = useTranslation();
  let title: string, detail: string, hint: string, instance = "";
  if ("error" in props) {
    const { problem, kind, status } = toApiError(props.error);
    title = t(`problem.${kind}`, { defaultValue: problem.title || t("problem.internal") });
    detail = status === 0 ? t("error.unreachable") : problem.detail;
    ({ hint, instance } = problem);
  } else {
    ({ title, detail } = props);
    hint = "";
  }
  return (
    <Alert role="alert" color="red" variant="light" icon={<IconAlertTriangle size={18} />} title={title} my="md">
      <Stack gap={6}>
        <Text size="sm" style={{ overflowWrap: "anywhere" }}>
          {detail}
        </Text>
        {hint && !detail.toLowerCase().includes(hint.toLowerCase()) && (
          <Text size="sm" c="dimmed">
            {hint}
          </Text>
        )}
        {instance && (
          <Text size="xs" c="dimmed">
            {t("error.request")} <Code>{instance.replace("urn:meshplan:request:", "")}</Code>
          </Text>
        )}
        {props.action && <Group mt={4}>{props.action}</Group>}
      </Stack>
    </Alert>
  );
}
