import { useTranslation } from "../i18n";

import { CopyButton } from "./CopyButton";
import classes from "./CodeBlock.module.css";

/** Text to copy: a command, a request, a file. Long lines scroll inside. */
export function CodeBlock({ text, label }: { text: string; label: string }) {
  const { t } = useTranslation();
  return (
    <figure className={classes.frame}>
      <figcaption className={classes.caption}>
        <span>{label}</span>
        <CopyButton text={text} />
      </figcaption>
      <pre className={classes.text} tabIndex={0} role="region" aria-label={t("codeOf", { label })}>
        {text}
      </pre>
    </figure>
  );
}
