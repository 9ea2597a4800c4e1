/** Fields that forms of several pages have. */
import { MultiSelect, Select, Text, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { CSSProperties, ReactNode } from "react";
import { useTranslation } from "../i18n";

import { hardwareListQuery } from "../api/queries";
import { number } from "../units/format";
import { readNumber, unreadText, type Written } from "../units/written";

const FAMILIES = ["ascend", "nvidia", "amd"] as const;

interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  error?: string | undefined;
  description?: ReactNode;
  placeholder?: string;
  required?: boolean;
  style?: CSSProperties;
}

const told = ({ label, error, description, placeholder, required, style }: Props) => ({
  label,
  error,
  ...(description && { description }),
  ...(placeholder && { placeholder }),
  ...(required && { required }),
  ...(style && { style }),
});

/** Whether a number of the form cannot be read: nothing is sent then, and its field is focused. */
export function toUnread(form: HTMLFormElement | null): boolean {
  const field = form?.querySelector<HTMLElement>("[data-unread]");
  field?.focus();
  return field != null;
}

/** Keeps what was typed, and says beside it what the server will read, or that it cannot be read. */
export function NumberField({ written, unit, ...props }: Props & { written: Written; unit?: string; name?: string }) {
  const { t } = useTranslation();
  const unread = unreadText(t, props.value, written);
  const value = readNumber(props.value, written);
  const isShort = value !== null && /[a-z]/i.test(props.value);
  const read = isShort && `= ${number(value / (written.scale ?? 1), 6)}${unit ? ` ${unit}` : ""}`;
  const description = read && props.description ? <>{read}<br />{props.description}</> : read || props.description;
  return (
    <TextInput
      {...told({ ...props, error: unread ?? props.error, ...(description && { description }) })}
      {...(props.name && { name: props.name })}
      value={props.value}
      onChange={(event) => props.onChange(event.currentTarget.value)}
      autoComplete="off"
      {...(unread && { "data-unread": true })}
      {...(unit && { rightSection: <Text span size="sm" c="dimmed">{unit}</Text>, rightSectionWidth: 52, rightSectionPointerEvents: "none" as const })}
    />
  );
}

export function TextField(props: Props) {
  return <TextInput {...told(props)} value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)} autoComplete="off" />;
}

function useHardware() {
  const { t } = useTranslation("newStudy");
  const items = useQuery(hardwareListQuery()).data?.items ?? [];
  return FAMILIES.map((family) => ({
    group: t(`cluster.family.${family}`),
    items: items.filter((item) => item.family === family).map(({ name, title }) => ({ value: name, label: title })),
  }));
}

export function HardwareField(props: Props) {
  return <Select {...told(props)} data={useHardware()} value={props.value || null} onChange={(value) => props.onChange(value ?? "")} searchable />;
}

/** Several products: their names, one comma between two. */
export function HardwaresField(props: Props) {
  const value = props.value.split(",").filter(Boolean);
  const { placeholder, ...rest } = told(props);
  return (
    <MultiSelect
      {...rest}
      {...(value.length === 0 && { placeholder })}
      data={useHardware()}
      value={value}
      onChange={(names) => props.onChange(names.join(","))}
      searchable
      clearable
    />
  );
}
