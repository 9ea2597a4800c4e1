import { ActionIcon, Button, Tooltip } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import { useEffect, useState } from "react";
import { useTranslation } from "../i18n";

const SHOWN_MS = 1500;

/** Browsers have no clipboard on pages from other hosts without TLS; there, what is selected can still be copied. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = Object.assign(document.createElement("textarea"), { value: text });
  field.style.cssText = "position: fixed; opacity: 0";
  // Inside an open dialog, whose focus trap would take the selection away elsewhere.
  (document.activeElement?.parentElement ?? document.body).append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  return undefined;
}

/** Copies `text`. With `label` a button that says what it copies, without one an icon. */
export function CopyButton({ text, label }: { text: string; label?: string }) {
  const { t } = useTranslation();
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return undefined;
    const timer = setTimeout(() => setCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);

  const copy = () => void copyText(text).then(() => setCopied(true));
  const Icon = isCopied ? IconCheck : IconCopy;
  const said = isCopied ? t("copied") : (label ?? t("copy"));
  if (label)
    return (
      <Button variant="default" leftSection={<Icon size={15} />} onClick={copy}>
        {said}
      </Button>
    );
  return (
    <Tooltip label={said}>
      <ActionIcon variant="subtle" color="gray" onClick={copy} aria-label={said}>
        <Icon size={15} />
      </ActionIcon>
    </Tooltip>
  );
}
