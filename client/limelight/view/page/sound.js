// Sounds, as the WAV file of one channel that a server reads: recorded, or from any file that the browser decodes.

import { Problem } from "./client.js";

const HEADER = 44;

/** Channels and samples a second of a WAV file; null for another format. */
export function formatOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const tag = (at) => String.fromCharCode(...bytes.subarray(at, at + 4));
  if (bytes.length < HEADER || tag(0) !== "RIFF" || tag(8) !== "WAVE") return null;
  for (let at = 12; at + 16 <= bytes.length; at += 8 + view.getUint32(at + 4, true)) {
    if (tag(at) === "fmt ") return { channels: view.getUint16(at + 10, true), rate: view.getUint32(at + 12, true) };
  }
  return null;
}

/** The bytes of a sound as a WAV file of one channel and a rate; those of such a file stay as they are. */
export async function asWav(bytes, rate) {
  const format = formatOf(bytes);
  if (format?.channels === 1 && format.rate === rate) return bytes;
  let sound;
  try {
    sound = await new OfflineAudioContext(1, 1, rate).decodeAudioData(bytes.slice().buffer); // resampled to the rate
  } catch {
    throw new Problem("The browser cannot read this sound. WAV, MP3 and Ogg work nearly everywhere.");
  }
  const channels = Array.from({ length: sound.numberOfChannels }, (_, each) => sound.getChannelData(each));
  const mean = (at) => channels.reduce((sum, each) => sum + each[at], 0) / channels.length;
  return wavOf(
    Array.from({ length: sound.length }, (_, at) => mean(at)),
    rate,
  );
}

/** The bytes of a WAV file of samples from -1 to 1. */
export function wavOf(samples, rate) {
  const wav = new DataView(new ArrayBuffer(HEADER + 2 * samples.length));
  const write = (at, text) => Array.from(text, (letter, place) => wav.setUint8(at + place, letter.charCodeAt(0)));
  write(0, "RIFF");
  wav.setUint32(4, wav.byteLength - 8, true);
  write(8, "WAVEfmt ");
  wav.setUint32(16, 16, true);
  wav.setUint16(20, 1, true); // integers
  wav.setUint16(22, 1, true);
  wav.setUint32(24, rate, true);
  wav.setUint32(28, 2 * rate, true);
  wav.setUint16(32, 2, true);
  wav.setUint16(34, 16, true);
  write(36, "data");
  wav.setUint32(40, 2 * samples.length, true);
  samples.forEach((value, at) =>
    wav.setInt16(HEADER + 2 * at, Math.round(32767 * Math.max(-1, Math.min(1, value))), true),
  );
  return new Uint8Array(wav.buffer);
}

/** Record the microphone: gives a function that stops, and promises the bytes of what was recorded. */
export async function record() {
  let stream;
  try {
    stream = await navigator.mediaDevices.getUserMedia({ audio: true });
  } catch {
    throw new Problem("The browser gives no microphone to this page: allow it, or choose a file.");
  }
  const recorder = new MediaRecorder(stream);
  const parts = [];
  recorder.ondataavailable = ({ data }) => parts.push(data);
  const stopped = new Promise((resolve) => (recorder.onstop = resolve));
  recorder.start();
  return async () => {
    recorder.stop();
    await stopped;
    for (const each of stream.getTracks()) each.stop();
    return new Uint8Array(await new Blob(parts).arrayBuffer());
  };
}
