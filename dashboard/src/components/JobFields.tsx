/** Fields that forms of several pages have. */
import { MultiSelect, NumberInput, Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { CSSProperties } from "react";
import { useTranslation } from "../i18n";

import { hardwareListQuery } from "../api/queries";

const FAMILIES = ["ascend", "nvidia", "amd"] as const;

interface Props {
  label: string;
  value: string;
  onChange: (value: string) => void;
  error?: string | undefined;
  description?: string;
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

export function NumberField(props: Props & { unit?: string; decimals?: boolean }) {
  return (
    <NumberInput
      {...told(props)}
      value={props.value}
      onChange={(value) => props.onChange(String(value))}
      allowDecimal={props.decimals ?? false}
      thousandSeparator=","
      min={0}
      hideControls
      {...(props.unit && { suffix: ` ${props.unit}` })}
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
